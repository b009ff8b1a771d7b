package claims

import (
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/recorder"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The devices of the fixture machine hgx-h100, in order of their ibdev names.
const (
	dev0 = "pci-0000-19-00-0" // mlx5_0, uverbs0
	dev1 = "pci-0000-29-00-0" // mlx5_1, uverbs1
	dev2 = "pci-0000-3b-00-0" // mlx5_2, uverbs2
)

// plainOffer is the Offer of a node without a configuration.
type plainOffer struct{}

func (plainOffer) Facts(context.Context, *node.Host, *resourceapi.ResourceClaim) plan.Facts {
	return plan.Facts{Pool: drivertest.NodeName, Site: plan.DefaultSite()}
}
func (plainOffer) Prepared(*plan.Plan) {}
func (plainOffer) Ended()              {}

// reported is a Reporter that keeps what it is told.
type reported struct {
	recorder.Recorder
	hooked []string // IDs of the containers that the hook reported
}

func (r *reported) Prepared(*resourceapi.ResourceClaim) {}
func (r *reported) Ended(types.UID)                     {}
func (r *reported) ContainerReported(hooked record.Report, p *plan.Plan) {
	r.hooked = append(r.hooked, hooked.ID+" of "+p.Claim())
}

// has reports whether there was an event of a claim with a text.
func (r *reported) has(c *resourceapi.ResourceClaim, reason event.Reason, text string) bool {
	return slices.ContainsFunc(r.Events(), func(e event.Event) bool {
		return e.UID == c.UID && e.Reason == reason && strings.Contains(e.Message, text)
	})
}

// served has the Claims of a fixture node.
type served struct {
	*Claims
	*reported

	t       *testing.T
	ctx     context.Context // with a log
	node    *drivertest.Node
	options []func(*Config)
}

// serve makes the Claims of a node with the hardware of a fixture machine. An option may change their configuration.
func serve(t *testing.T, machine string, options ...func(*Config)) *served {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	ctx := klog.NewContext(context.Background(), logger) // which never ends, so that time passes in a bubble of synctest
	s := &served{reported: &reported{}, t: t, ctx: ctx, node: drivertest.NewNode(t, machine), options: options}
	s.restart()
	return s
}

// restart makes the Claims of the next driver.
func (s *served) restart() {
	s.t.Helper()
	store, n := openNode(s.t, s.node.Worker)
	turns := budget.Default()
	turns.Spacing = time.Millisecond
	cfg := Config{
		Client: s.node.Client(s.t), Node: n, Store: store, Offer: plainOffer{}, Report: s.reported,
		NodeName: drivertest.NodeName, HostRoot: s.node.Root, CDIDir: s.node.CDIDir,
		PodResources: filepath.Join(s.node.Dir, "pod-resources", "kubelet.sock"),
		Hook:         plan.HookOptions{Path: "/opt/rdma.dev/bin/rdma-hook-1", OnDenied: "clamp"},
		Clock:        clock.RealClock{}, Budget: budget.New(turns, clock.RealClock{}, rand.Float64),
	}
	for _, o := range s.options {
		o(&cfg)
	}
	s.Claims = New(cfg)
	must.NoError(s.t, s.Start(s.ctx))
	s.t.Cleanup(s.Claims.Close)
}

// openNode opens what the drivers of a worker have stored, and returns it with a node that has read the host.
func openNode(t *testing.T, worker *drivertest.Worker) (*claimstore.Store, *node.Node) {
	t.Helper()
	store, err := claimstore.Open(worker.StateDir, claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	must.NoError(t, store.Rebuild())
	n, err := node.Open(node.Config{
		HostRoot: worker.Root, Store: store, Health: health.DefaultConfig(), Now: time.Now,
	})
	must.NoError(t, err)
	return store, n
}

// prepareOf prepares one claim, and returns the IDs of its devices.
func (s *served) prepareOf(ctx context.Context, c *resourceapi.ResourceClaim) (ids []string, err error) {
	result := s.Prepare(ctx, []*resourceapi.ResourceClaim{c})[c.UID]
	for _, d := range result.Devices {
		ids = append(ids, d.CDIDeviceIDs...)
	}
	return ids, result.Err
}

// prepares prepares one claim, which must succeed, and checks that its devices can be loaded by a container runtime. It
// returns their IDs.
func (s *served) prepares(c *resourceapi.ResourceClaim) []string {
	s.t.Helper()
	ids, err := s.prepareOf(s.ctx, c)
	must.NoError(s.t, err)
	must.NoError(s.t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
	return ids
}

// refuses prepares one claim, which must fail with all parts in its error.
func (s *served) refuses(c *resourceapi.ResourceClaim, parts ...string) {
	s.t.Helper()
	_, err := s.prepareOf(s.ctx, c)
	s.saysAll(err, parts...)
}

// saysAll checks that an error has all parts.
func (s *served) saysAll(err error, parts ...string) {
	s.t.Helper()
	must.Error(s.t, err, must.Sprint("the claim was prepared"))
	for _, part := range parts {
		test.StrContains(s.t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
	}
}

func (s *served) unprepares(claims ...*resourceapi.ResourceClaim) {
	s.t.Helper()
	for _, c := range claims {
		of := kubeletplugin.NamespacedObject{UID: c.UID}
		of.Namespace, of.Name = c.Namespace, c.Name
		test.NoError(s.t, s.Unprepare(s.ctx, []kubeletplugin.NamespacedObject{of})[c.UID])
	}
}

// hasFiles checks that specs and records are just those of the claims.
func (s *served) hasFiles(claims ...*resourceapi.ResourceClaim) {
	s.t.Helper()
	specs, records := []string{}, []string{}
	for _, c := range claims {
		specs = append(specs, filepath.Base(drivertest.SpecPath(s.node.CDIDir, c)))
		records = append(records, string(c.UID)+".json")
	}
	test.SliceEqOp(s.t, specs, drivertest.Files(s.t, s.node.CDIDir), test.Sprint("the CDI directory"))
	test.SliceEqOp(s.t, records, drivertest.Files(s.t, s.node.RecordDir()), test.Sprint("the records"))
}

// answers puts something in front of the API server that answers requests for claims. It returns a context that ends
// when the Claims ask again.
func (s *served) answers(as func(http.ResponseWriter, *http.Request, http.Handler)) (context.Context, *apifault.Shot) {
	s.t.Helper()
	proxy := apifault.New(s.t, s.node.Config())
	client, err := kubernetes.NewForConfig(proxy.Config())
	must.NoError(s.t, err)
	s.cfg.Client = client
	ctx, giveUp := context.WithCancel(s.ctx)
	s.t.Cleanup(giveUp)
	var asked atomic.Int32
	return ctx, proxy.Arm(apifault.Fault{
		N: 1, Match: apifault.Claims, Lasting: true, Do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if asked.Add(1) > 1 {
				giveUp()
			}
			as(w, r, next)
		},
	})
}
