package dra

import (
	"context"
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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/sockets"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// sweepSockets removes the sockets of drivers of other pods that were killed and did not come back. An example is a
// driver that was killed for memory and then updated. The kubelet would try to connect to these sockets for ever.
func (d *Driver) sweepSockets(logger klog.Logger) {
	if d.cfg.PodUID == "" {
		return // without a pod UID all drivers use the same sockets
	}
	removed, err := sockets.Sweep(staleAge,
		filepath.Join(d.cfg.RegistrarDir(), rdma.Domain+"-*-reg.sock"), filepath.Join(d.cfg.PluginDir(), "dra-*.sock"), filepath.Join(d.cfg.PluginDir(), "status-*.sock"))
	if err != nil {
		logger.Error(err, "Some sockets of drivers that are gone stay")
	}
	if len(removed) > 0 {
		logger.Info("Removed sockets of drivers that are gone", "sockets", removed)
	}
}

// staleAge is the age from which a socket without a listener counts as left behind: its driver must have ended.
const staleAge = time.Minute

// kubelet is the driver's knowledge of the kubelet.
type kubelet struct {
	started    time.Time   // start of the driver
	registered atomic.Bool // the kubelet has registered this driver
	calls      *calls
	pods       *podresources.Cache
}

// podsFor is the greatest age of the kubelet's list of pods on the status page and in a scrape.
const podsFor = 5 * time.Second

func newKubelet(cfg *Config) kubelet {
	return kubelet{started: time.Now(), calls: &calls{}, pods: &podresources.Cache{
		Socket: cfg.podResourcesSocket(), Driver: rdma.Domain, For: podsFor,
	}}
}

// RegisteredHeader is a header of the driver's answers to GetInfo. The driver sets it once the kubelet has registered
// the driver, so that a readiness probe can ask over the kubelet's socket.
const RegisteredHeader = "rdma-dev-registered"

// TroubleHeader is a header of the same answers. It has one value for each kind of request to the API server that
// fails, with the problem as text.
const TroubleHeader = "rdma-dev-api-trouble"

// NRIHeader is a header of the same answers. The driver sets it, with the reason, while it should be connected to the
// container runtime's NRI and is not.
const NRIHeader = "rdma-dev-nri-trouble"

// UnpublishedHeader is a header of the same answers. The driver sets it, with the reason, until the API server has the
// node's slices for the first time, while it has lacked them for so long that people are told, and as long as the
// driver has had no valid policy.
const UnpublishedHeader = "rdma-dev-unpublished"

const (
	// finishTime is the time limit for calls in progress when the driver stops. It is well below the 30 s that a pod
	// has by default.
	finishTime = 10 * time.Second
	// answerTime is the time that the answer of a finished call may take to reach the kubelet.
	answerTime = 100 * time.Millisecond
)

// calls counts the kubelet's calls in progress that concern claims.
type calls struct {
	mu    sync.Mutex
	n     int
	ended time.Time // end of the last call
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

// quietTime is the time without a call after which a burst of calls counts as ended. yieldTime is the longest time that
// background work waits for the end of a burst.
const (
	quietTime = 50 * time.Millisecond
	yieldTime = 2 * time.Second
)

// yield waits for the end of a burst of calls, for yieldTime at most. So background work takes no processor time from
// the kubelet's calls.
func (c *calls) yield(ctx context.Context) {
	for deadline := time.Now().Add(yieldTime); c.busy() && time.Now().Before(deadline); {
		if !loop.Sleep(ctx, quietTime/5) {
			return
		}
	}
}

func (c *calls) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > 0 || time.Since(c.ended) < quietTime
}

// finish waits until all calls are answered, at most for the given time. It returns the number of calls still in
// progress.
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

// observe intercepts the calls of the kubelet. After each registration it has the slices published again, because a
// kubelet that has just started deletes the slices of its node.
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
	default: // a call that concerns claims
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

// introduction returns the headers that the driver adds to its answers to GetInfo.
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
	if r := d.offer.Policy.Refused(); r != nil && r.First {
		md.Append(UnpublishedHeader, printable(r.Message()))
	} else if err, notReady := d.offer.Unpublished(); notReady {
		md.Append(UnpublishedHeader, printable(err.Error()))
	}
	return md
}

// printable replaces the characters that a header must not contain.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}
