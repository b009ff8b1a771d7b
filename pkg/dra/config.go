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

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config configures a driver.
type Config struct {
	// NodeName is the Kubernetes name of the node, and the name of its pool.
	NodeName string
	// PodUID is the UID of the driver's pod. During a rolling update it keeps the sockets of two drivers apart. It may
	// be empty.
	PodUID types.UID
	// HostRoot is the directory that holds the host's sys and dev.
	HostRoot string
	// KubeletDir is the kubelet's root directory (kubelet --root-dir). Its path must be the same inside and outside the
	// driver's pod.
	KubeletDir string
	// StateDir holds the records, locks and files of claims. Its path must be the same on the host, because the
	// container runtime mounts some of the files.
	StateDir string
	// CDIDir is one of the runtime's CDI directories. The driver writes the specs of claims there.
	CDIDir string
	// Site is the default for every claim of the node. The policy overrides it.
	Site plan.Site
	// Policy is the site's policy for the HCAs of the node, nil for the default policy.
	Policy *policy.Config
	// PolicyRefused is why Policy could not be read from PolicyFile, nil if it could. The driver then offers nothing to
	// new claims until the file is valid.
	PolicyRefused error
	// PolicyFile is the file that Policy was read from, empty for none. The driver applies changes of the file without
	// a restart.
	PolicyFile string
	// ClaimStatus makes the driver write the node's names of the HCAs into the status of their claims.
	ClaimStatus bool
	// ClaimEvents makes the driver write events for claims, and for the pods that use them.
	ClaimEvents bool
	// DeviceMetadata makes the driver give containers files about their devices (KEP-5304).
	DeviceMetadata bool
	// DeviceInfoDir is the directory in which CNI plugins look for device information files (docs/cni.md), empty for
	// none.
	DeviceInfoDir string
	// NodeFeatureDir is the directory of the feature files of Node Feature Discovery, in which the driver writes the label
	// with the node's leaf switch, empty for none.
	NodeFeatureDir string
	// Hook configures the hook, which sets the locked memory limit and the limits on HCAs, and checks the devices of a
	// container.
	Hook plan.HookOptions
	// Mover moves HCAs into the network namespaces of pods, on a host whose RDMA subsystem is in exclusive mode. If it
	// is nil, the driver publishes nothing on such a host.
	Mover node.Mover
	// Genl asks the kernel about the firmware, links and cables of cards, and about software HCAs. If it is nil, these are
	// not known.
	Genl node.Genl
	// LeafFiles are the files that say to which leaf switches HCAs are connected.
	LeafFiles node.LeafFiles
	// Interfaces attaches the network interfaces of claims to pods. If it is nil, the driver attaches none.
	Interfaces *podnet.Host
	// IPAM gets the addresses of these interfaces from CNI plugins. It may be nil.
	IPAM *podnet.IPAM
	// NRISocket is the socket on which the container runtime announces pods (package nri), empty for no announcements.
	NRISocket string
	// Health has the times after which the driver counts a fault as begun or ended, nil for the defaults.
	Health *health.Config
	// Troubles collects the problems with the API server. It may be nil.
	Troubles *apiclient.Troubles
	// Events configures the source of the kernel's events. The zero value is the kernel itself.
	Events watch.Config
	// Metrics measures what the driver does. It may be nil.
	Metrics *metrics.Instruments
	// RuntimeCDI confirms that the container runtime applies CDI devices, for a runtime that does not do so by default
	// (containerd 1.7 without enable_cdi).
	RuntimeCDI bool

	// Only tests set these fields. The zero values select the real ones.
	now    func() time.Time // changes of the host's clock do not change differences
	clock  clock.WithTicker // of background requests
	limits *budget.Limits   // of background requests
	source node.Source      // announces changes of the host
	sys    fs.ReadLinkFS    // of the host
	budget *budget.Budget   // made from the limits
}

// setDefaults replaces the fields without a value by their defaults.
func (c *Config) setDefaults() {
	c.Health = cmp.Or(c.Health, new(health.DefaultConfig()))
	if c.now == nil {
		c.now = time.Now
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.budget = budget.New(*cmp.Or(c.limits, new(budget.Default())), c.clock, rand.Float64)
}

// Validate returns an error that joins all missing and invalid fields.
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
		errs = append(errs, errors.New("--move-devices needs NRI, which announces pods: set --nri-socket"))
	}
	if c.Interfaces != nil && c.NRISocket == "" {
		errs = append(errs, errors.New("--attach-interfaces needs NRI, which announces pods: set --nri-socket"))
	}
	if c.DeviceInfoDir != "" && !filepath.IsAbs(c.DeviceInfoDir) {
		errs = append(errs, fmt.Errorf("device information directory is not an absolute path: %q", c.DeviceInfoDir))
	}
	if _, err := c.Site.Memlock.Bytes(); err != nil {
		errs = append(errs, fmt.Errorf("--memlock: %w", err))
	}
	return errors.Join(errs...)
}

// PluginDir returns the directory of the driver's sockets.
func (c *Config) PluginDir() string { return filepath.Join(c.KubeletDir, "plugins", rdma.Domain) }

// RegistrarDir returns the directory in which the kubelet looks for plugins.
func (c *Config) RegistrarDir() string { return filepath.Join(c.KubeletDir, "plugins_registry") }

// podResourcesSocket returns the kubelet's socket that lists which pods use which claims.
func (c *Config) podResourcesSocket() string {
	return filepath.Join(c.KubeletDir, "pod-resources", "kubelet.sock")
}
