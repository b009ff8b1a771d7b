package dra

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// Config is what a driver needs to know.
type Config struct {
	// NodeName is the Kubernetes name of the node, and the name of its pool.
	NodeName string
	// PodUID is the UID of the driver's pod. It keeps the sockets of two drivers
	// apart during a rolling update; empty without one.
	PodUID types.UID
	// HostRoot holds the host's sys and dev.
	HostRoot string
	// KubeletDir is the kubelet's root directory (kubelet --root-dir). It has the
	// same path inside and outside the driver's pod.
	KubeletDir string
	// StateDir is where records, locks and files of claims are, at the same path on the host,
	// whose container runtime mounts some of them.
	StateDir string
	// CDIDir is where claim specs go: one of the runtime's CDI directories.
	CDIDir string
	// Site is what every claim of the node gets, unless the policy says otherwise.
	Site plan.Site
	// Policy is what the site says of the node's HCAs, nil for the default.
	Policy *policy.Config
	// PolicyFile is where Policy was read from; changes of it come into force. Empty
	// for none.
	PolicyFile string
	// ClaimStatus has the driver write the names that HCAs have on the node into the status of their claims.
	ClaimStatus bool
	// ClaimEvents has the driver leave events on claims, and on the pods that use them.
	ClaimEvents bool
	// DeviceMetadata has the driver give containers files about their devices
	// (KEP-5304).
	DeviceMetadata bool
	// DeviceInfoDir is where CNI plugins look for device information files
	// (docs/cni.md); empty for none.
	DeviceInfoDir string
	// Hook raises the locked memory limit.
	Hook plan.HookOptions
	// Mover moves HCAs into the network namespaces of pods, where the host's RDMA
	// subsystem is in exclusive mode; nil for nobody, and nothing is published there.
	Mover node.Mover
	// Interfaces attaches the network interfaces of claims to pods; nil for nobody.
	Interfaces *podnet.Host
	// IPAM asks CNI plugins for their addresses; nil for nobody.
	IPAM *podnet.IPAM
	// NRISocket is where the container runtime tells of pods (package nri); empty to
	// hear of none.
	NRISocket string
	// Health says how long things must be before they count, nil for the defaults.
	Health *health.Config
	// Troubles is what is wrong with the API server, nil if nobody looks.
	Troubles *apiclient.Troubles
	// Events says where the kernel's events come from; the zero value is the kernel.
	Events watch.Config
	// Metrics measures what the driver does; nil for nothing.
	Metrics *metrics.Instruments
	// RuntimeCDI confirms that the container runtime applies CDI devices, where
	// it does not do so by default (containerd 1.7 without enable_cdi).
	RuntimeCDI bool

	// What tests replace. The zero values are the real ones.
	now    func() time.Time // differences ignore changes of the host's clock
	clock  clock.WithTicker // of requests that nobody waits for
	limits *budget.Limits   // of the same
	source node.Source      // of changes of the host
	sys    fs.ReadLinkFS    // the host's
	budget *budget.Budget   // made from the limits
}

// setDefaults fills in what nobody said.
func (c *Config) setDefaults() {
	c.Health = cmp.Or(c.Health, new(health.DefaultConfig()))
	c.Policy = cmp.Or(c.Policy, policy.Default())
	if c.now == nil {
		c.now = time.Now
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.budget = budget.New(*cmp.Or(c.limits, new(budget.Default())), c.clock, rand.Float64)
}

// Validate returns what is missing.
func (c *Config) Validate() error {
	var errs []error
	if c.NodeName == "" {
		errs = append(errs, errors.New("node name is empty: set --node-name or NODE_NAME"))
	}
	for _, dir := range []struct{ name, path string }{{"host root", c.HostRoot}, {"kubelet directory", c.KubeletDir}, {"state directory", c.StateDir}, {"CDI directory", c.CDIDir}} {
		if !filepath.IsAbs(dir.path) {
			errs = append(errs, fmt.Errorf("%s is not an absolute path: %q", dir.name, dir.path))
		}
	}
	if c.Mover != nil && c.NRISocket == "" {
		errs = append(errs, errors.New("RDMA devices are to be moved into pods, but nothing tells of pods: set --nri-socket"))
	}
	if c.Interfaces != nil && c.NRISocket == "" {
		errs = append(errs, errors.New("network interfaces are to be attached to pods, but nothing tells of pods: set --nri-socket"))
	}
	if c.DeviceInfoDir != "" && !filepath.IsAbs(c.DeviceInfoDir) {
		errs = append(errs, fmt.Errorf("device information directory is not an absolute path: %q", c.DeviceInfoDir))
	}
	if _, err := c.Site.Memlock.Bytes(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// PluginDir holds the driver's sockets.
func (c *Config) PluginDir() string { return filepath.Join(c.KubeletDir, "plugins", plan.DriverName) }

// RegistrarDir is where the kubelet looks for plugins.
func (c *Config) RegistrarDir() string { return filepath.Join(c.KubeletDir, "plugins_registry") }

// podResourcesSocket is where the kubelet tells which pods use which claims.
func (c *Config) podResourcesSocket() string {
	return filepath.Join(c.KubeletDir, "pod-resources", "kubelet.sock")
}
