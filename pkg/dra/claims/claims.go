// Package claims prepares claims: it gives the containers of a claim's pods their HCAs, and takes them back.
//
// For the kubelet, a prepared claim is a list of CDI devices. On disk it has three parts: a record (package
// claimstore), a CDI spec that the container runtime reads, and files that the spec mounts. Prepare makes them from one
// allocation (package plan) and one [node.Host], in these steps:
//
//  1. Lock the claim, so that no other call prepares or ends it.
//  2. Make the plan from the claim and the node's facts. If a record of the same allocation exists, reuse its settings.
//  3. Make the spec and the files, and confirm them with the kernel.
//  4. Write the record, which locks the HCAs against other claims.
//  5. Write the files and the spec, and confirm once more.
//
// On a host in the middle of a change, step 2, 3 or 5 fails. Prepare then waits for the host without a lock, and starts
// again.
//
// The record decides. A spec without a record is removed. The missing or outdated spec of a record is written again:
// see [Claims.Restore] and [Claims.WatchSpecs]. Unprepare removes the record. If the kubelet never calls Unprepare,
// [Orphans.Sweep] removes the record once no pod can use the claim any more.
//
// The package knows nothing about publication, and little about pods: see [Offer] and [Pods].
package claims

import (
	"context"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Config configures Claims.
type Config struct {
	Client   kubernetes.Interface
	Node     *node.Node
	Store    *claimstore.Store
	Offer    Offer
	Report   Reporter
	NodeName string
	// HostRoot is the directory that holds the host's sys, which has the cgroups of pods. PodUID is the UID of the
	// driver's pod.
	HostRoot string
	PodUID   types.UID
	// CDIDir has the specs of claims.
	CDIDir string
	// PodResources is the kubelet's socket that lists which pods use which claims.
	PodResources string
	// DeviceMetadata makes the driver give containers files about their devices (KEP-5304).
	DeviceMetadata bool
	// Interfaces means that pods get the network interfaces that their claims ask for.
	Interfaces bool
	Hook       plan.HookOptions
	Metrics    *metrics.Instruments
	// Budget and Clock bound background requests.
	Budget *budget.Budget
	Clock  clock.WithTicker
	// Fail ends the driver with an error, so that it is restarted.
	Fail func(error)
}

// Offer is the part of package offer that claims need.
type Offer interface {
	// Facts returns what the published devices and the node's configuration give to a new claim.
	Facts(context.Context, *node.Host, *resourceapi.ResourceClaim) plan.Facts
	// Prepared is called after a claim was prepared, and Ended after one has ended.
	Prepared(*plan.Plan)
	Ended()
}

// Pods is the part of package pods that claims need. It is nil if the driver uses no NRI.
type Pods interface {
	// Admit returns the reason why a network interface of a new claim cannot be attached to a pod of this host, nil if
	// it can.
	Admit(*node.Host, *plan.Plan) error
	// UsingHostNetwork returns which of the given pods use the host's network.
	UsingHostNetwork([]types.UID) []types.UID
	// Using returns the pods with a container that has a device of a claim. complete reports whether all pods of the
	// node are known.
	Using(*plan.Plan) (pods []types.UID, complete bool)
}

// Reporter takes reports for people.
type Reporter interface {
	Record(event.Event)
	// Note records an event on the status page only.
	Note(reason, object, format string, args ...any)
	// Prepared is called with a claim as the API server has it. Ended is called with a claim that has ended.
	Prepared(*resourceapi.ResourceClaim)
	Ended(types.UID)
	// ContainerReported is called with the hook's report about a container of a claim.
	ContainerReported(record.Report, *plan.Plan)
}

// Claims prepares and unprepares claims. It is safe for concurrent use, and concurrently with Claims in another
// process.
type Claims struct {
	*shared
	Reservations *Reservations
	Orphans      *Orphans

	watcher *fsnotify.Watcher // of the CDI directory
}

// shared has the fields that all parts of Claims use.
type shared struct {
	cfg   Config
	pods  Pods
	specs cdi.Store
}

// New returns Claims. It starts no goroutine.
func New(cfg Config) *Claims {
	s := &shared{cfg: cfg, specs: cdi.Store{Dir: cfg.CDIDir}}
	return &Claims{shared: s, Reservations: &Reservations{s}, Orphans: &Orphans{shared: s}}
}

// Use sets the node's pods, which Claims then asks. It must be called before the first claim.
func (c *Claims) Use(pods Pods) { c.pods = pods }

// removeFiles removes the spec and the files of a claim. It is idempotent. The record stays.
func (s *shared) removeFiles(uid types.UID) error {
	if _, err := s.specs.Remove(specName(uid)); err != nil {
		return err
	}
	return s.cfg.Store.Metadata().Remove(uid)
}

// readPods returns the pods that have a cgroup on the node.
func (s *shared) readPods() (rdmacgroup.Pods, error) {
	return rdmacgroup.ReadPods(sysfs.DirFS(filepath.Join(s.cfg.HostRoot, "sys/fs/cgroup")), string(s.cfg.PodUID))
}
