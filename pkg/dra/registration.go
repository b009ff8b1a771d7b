package dra

import (
	"context"
	"github.com/rdma-dev/dra-driver-rdma/internal/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"k8s.io/klog/v2"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/sockets"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// sweepSockets removes the sockets of drivers of other pods that were killed and did not
// come back, such as one that was out of memory and was then updated. The kubelet would try
// to reach them for ever.
func (d *Driver) sweepSockets(logger klog.Logger) {
	if d.cfg.PodUID == "" {
		return // all drivers have the same ones
	}
	removed, err := sockets.Sweep(staleAge,
		filepath.Join(d.cfg.RegistrarDir(), plan.DriverName+"-*-reg.sock"), filepath.Join(d.cfg.PluginDir(), "dra-*.sock"), filepath.Join(d.cfg.PluginDir(), "status-*.sock"))
	if err != nil {
		logger.Error(err, "Some sockets of drivers that are gone stay")
	}
	if len(removed) > 0 {
		logger.Info("Removed sockets of drivers that are gone", "sockets", removed)
	}
}

// staleAge is the age of a socket whose driver must have ended.
const staleAge = time.Minute

// kubelet is what the driver knows of the kubelet.
type kubelet struct {
	started    time.Time   // the driver
	registered atomic.Bool // the kubelet has registered this driver
	calls      *calls
	pods       *podresources.Cache
}

// podsFor is how old the kubelet's list of its pods may be on the status page and in a scrape.
const podsFor = 5 * time.Second

func newKubelet(cfg *Config) kubelet {
	return kubelet{started: time.Now(), calls: &calls{}, pods: &podresources.Cache{
		Socket: cfg.podResourcesSocket(), Driver: plan.DriverName, For: podsFor,
	}}
}

// RegisteredHeader is set on the driver's answers to GetInfo once the kubelet has
// registered it, so that a readiness probe can ask over the real socket.
const RegisteredHeader = "rdma-dev-registered"

// TroubleHeader is set on the same answers for each kind of request to the API server that is
// in trouble, with what is wrong in words.
const TroubleHeader = "rdma-dev-api-trouble"

// NRIHeader is set on the same answers while the container runtime should have the driver's NRI plugin and does not,
// with the reason.
const NRIHeader = "rdma-dev-nri-trouble"

const (
	// finishTime is how long a driver that is stopped goes on for the calls that it has
	// begun, well within the 30 s that a pod has by default.
	finishTime = 10 * time.Second
	// answerTime is how long the answer to a call that has ended may take to the kubelet.
	answerTime = 100 * time.Millisecond
)

// calls counts the calls of the kubelet for claims that are in progress.
type calls struct {
	mu    sync.Mutex
	n     int
	ended time.Time // the last one
}

func (c *calls) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	c.ended = time.Now()
}

// quietTime is how long no call is in progress between two storms of them, and yieldTime how
// long anything waits for that.
const (
	quietTime = 50 * time.Millisecond
	yieldTime = 2 * time.Second
)

// yield lets calls that follow each other go first: what nobody waits for takes no processor
// from them.
func (c *calls) yield(ctx context.Context) {
	for deadline := time.Now().Add(yieldTime); c.busy() && time.Now().Before(deadline); {
		if !wake.Sleep(ctx, quietTime/5) {
			return
		}
	}
}

func (c *calls) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > 0 || time.Since(c.ended) < quietTime
}

// finish waits until all are answered, at most for the given time, and returns how many
// are in progress still.
func (c *calls) finish(most time.Duration) int {
	for deadline := time.Now().Add(most); ; time.Sleep(answerTime / 10) {
		c.mu.Lock()
		n, ended := c.n, c.ended
		c.mu.Unlock()
		if n == 0 && time.Since(ended) > answerTime || time.Now().After(deadline) {
			return n
		}
	}
}

// observe watches the calls of the kubelet. After a registration the slices are
// published again: a kubelet that has just started has wiped those of its node.
func (d *Driver) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	switch req := req.(type) {
	case *registerapi.RegistrationStatus:
		d.kubelet.registered.Store(req.PluginRegistered)
		if req.PluginRegistered {
			d.report.Note("Registered", d.cfg.NodeName, "the kubelet has registered the driver")
			d.offer.Registered()
		}
	case *registerapi.InfoRequest:
		if err := grpc.SetHeader(ctx, d.introduction()); err != nil {
			return nil, err
		}
	default: // of claims
		d.kubelet.calls.begin()
		defer d.kubelet.calls.end()
	}
	if call, ok := req.(*drapb.NodePrepareResourcesRequest); ok {
		var cancel context.CancelFunc
		ctx, cancel = claims.WithClaims(ctx, d.client, call.Claims)
		defer cancel()
	}
	return d.cfg.Metrics.Call(ctx, req, handler)
}

// introduction is what the driver says of itself beside its name.
func (d *Driver) introduction() metadata.MD {
	md := metadata.MD{}
	if d.kubelet.registered.Load() {
		md.Set(RegisteredHeader, "true")
	}
	for _, trouble := range d.cfg.Troubles.Current() {
		md.Append(TroubleHeader, printable(trouble.String()))
	}
	if err := d.pods.Trouble(); err != nil {
		md.Append(NRIHeader, printable(err.Error()))
	}
	return md
}

// printable makes text fit for a header.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
