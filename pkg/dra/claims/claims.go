package claims

import (
	"context"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Config is what Claims need.
type Config struct {
	Client   kubernetes.Interface
	Node     *node.Node
	Store    *claimstore.Store
	Offer    Offer
	Report   Reporter
	NodeName string
	// HostRoot holds the host's sys, where pods have cgroups. PodUID is the driver's own pod.
	HostRoot string
	PodUID   types.UID
	// StateDir has the files of claims, and CDIDir their specs.
	StateDir, CDIDir string
	// PodResources is the socket where the kubelet lists which pods use which claims.
	PodResources string
	// DeviceMetadata gives containers files about their devices (KEP-5304).
	DeviceMetadata bool
	// Interfaces says that pods get the network interfaces that claims ask for.
	Interfaces bool
	Hook       plan.HookOptions
	Metrics    *metrics.Instruments
	// Budget and Clock bound the requests that nobody waits for.
	Budget *budget.Budget
	Clock  clock.WithTicker
	// Fail ends the driver, which is started again.
	Fail func(error)
}

// Offer is what the driver publishes, as far as claims concern it.
type Offer interface {
	// Facts returns what the published devices and the node's configuration give to a new claim.
	Facts(context.Context, *node.Host, *resourceapi.ResourceClaim) plan.Facts
	// Prepared is called after a claim was prepared, and Ended after one has ended.
	Prepared(*plan.Plan)
	Ended()
}

// Pods is what claims ask of the node's pods. Without the container runtime's NRI there is none.
type Pods interface {
	// Admit says why a network interface of a new claim cannot go into a pod of this host.
	Admit(*node.Host, *plan.Plan) error
	// UsingHostNetwork returns those of some pods that use the host's network.
	UsingHostNetwork([]types.UID) []types.UID
	// Using returns the pods with a container that has a device of a claim, and whether all pods are known.
	Using(*plan.Plan) (pods []types.UID, complete bool)
}

// Reporter takes what people should know.
type Reporter interface {
	Record(event.Event)
	// Note records on the status page alone.
	Note(reason, object, format string, args ...any)
	// Prepared is called with a claim as the API server has it, and Ended with one that has ended.
	Prepared(*resourceapi.ResourceClaim)
	Ended(types.UID)
	// ContainerReported is called with what the hook reports of a container of a claim.
	ContainerReported(hook.Report, *plan.Plan)
}

// Claims prepares and unprepares claims. It is safe for use by several goroutines, and beside Claims of another
// process.
type Claims struct {
	*shared
	*reservations
	*releaser
	watcher *fsnotify.Watcher // of the CDI directory
}

// shared is what all parts of Claims have.
type shared struct {
	cfg   Config
	pods  Pods
	specs cdi.Store
}

// New returns Claims that do nothing by themselves.
func New(cfg Config) *Claims {
	s := &shared{cfg: cfg, specs: cdi.Store{Dir: cfg.CDIDir}}
	return &Claims{shared: s, reservations: &reservations{s}, releaser: &releaser{shared: s}}
}

// Use has claims ask the node's pods. It comes before the first claim.
func (c *Claims) Use(pods Pods) { c.pods = pods }

// removeFiles removes what a claim has besides its record.
func (s *shared) removeFiles(uid types.UID) error {
	if _, err := s.specs.Remove(specName(uid)); err != nil {
		return err
	}
	return s.cfg.Store.RemoveMetadata(uid)
}

// readPods returns the pods that have a cgroup on the node.
func (s *shared) readPods() (rdmacgroup.Pods, error) {
	return rdmacgroup.ReadPods(sysfs.DirFS(filepath.Join(s.cfg.HostRoot, "sys/fs/cgroup")), string(s.cfg.PodUID))
}
