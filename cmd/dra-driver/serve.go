package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
)

// serve holds the flags of the driver.
type serve struct {
	cfg         dra.Config
	podUID      string
	kubeconfig  string
	memlock     string
	moveDevices bool
	interfaces  interfaceFlags
	hook        hookFlags
	metrics     metricsFlags
}

var serveCodes = exitcode.List{
	exitOK: "stopped by a signal", exitError: "failed", exitUsage: badFlags + ", or a bad configuration file",
}

func newServe(env func(string) string) *cobra.Command {
	s := &serve{}
	cmd := &cobra.Command{
		Use:   "dra-driver",
		Short: "Kubernetes DRA node driver for RDMA devices",
		Long: `dra-driver publishes the RDMA devices (HCAs) of a node to Kubernetes, and gives
those that a ResourceClaim was allocated to the pods that use the claim, with
locked memory that works without capabilities.

It runs on every node with RDMA devices; install it with the Helm chart. Logs go to
standard error.

` + serveCodes.Help(),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.register(cmd.Flags(), env)
	return cmd
}

func (s *serve) register(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&s.cfg.NodeName, "node-name", env("NODE_NAME"), "Kubernetes name of this node (default $NODE_NAME)")
	f.StringVar(&s.podUID, "pod-uid", env("POD_UID"), "UID of the driver's pod, for rolling updates (default $POD_UID)")
	f.StringVar(&s.cfg.HostRoot, "host-root", "/", "directory that holds the host's sys and dev")
	f.StringVar(&s.cfg.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root directory of the kubelet")
	f.StringVar(&s.cfg.StateDir, "state-dir", "/run/rdma.dev/state", "directory for what the driver keeps of prepared claims, and for the files of their containers: on a tmpfs, at the same path on the host; not to be changed while claims are prepared")
	f.StringVar(&s.cfg.CDIDir, "cdi-dir", cdi.DynamicDir, "directory of the CDI specs of claims")
	f.StringVar(&s.kubeconfig, "kubeconfig", env("KUBECONFIG"), "kubeconfig file (default $KUBECONFIG, else the pod's service account)")
	f.StringVar(&s.memlock, "memlock", string(v1alpha1.MemlockUnlimited), "soft locked memory limit to raise containers to whose claim and class say nothing, no bound: unlimited, a quantity such as 4Gi, or inherit")
	f.StringVar(&s.cfg.PolicyFile, "config", "", "configuration file of the site: what is published of which HCA, and what every claim gets; changes of it come into force without a restart")
	f.BoolVar(&s.cfg.ClaimStatus, "claim-status", true, "write into the status of claims by which names the node has their HCAs")
	f.BoolVar(&s.cfg.ClaimEvents, "claim-events", true, "leave events on claims, and on the pods that use them, of what fails and of what their users should know")
	f.BoolVar(&s.cfg.DeviceMetadata, "device-metadata", true, "give containers files with the attributes of their devices (KEP-5304), below /var/run/kubernetes.io/dra-device-attributes")
	f.StringVar(&s.cfg.DeviceInfoDir, "device-info-dir", "", "directory for device information files of devices with a resourceName, where Multus looks: /var/run/k8s.cni.cncf.io/devinfo/dp; empty for none")
	f.BoolVar(&s.cfg.RuntimeCDI, "runtime-cdi-enabled", false, "containerd 1.7 on this node has enable_cdi set to true")
	f.BoolVar(&s.moveDevices, "move-devices", false, "on a host in exclusive RDMA network namespace mode, move RDMA devices into the network namespaces of pods that use them; needs --nri-socket, the host's network, CAP_NET_ADMIN and CAP_SYS_ADMIN")
	f.StringVar(&s.cfg.NRISocket, "nri-socket", "", "socket of the container runtime's Node Resource Interface, such as "+nri.DefaultSocket+"; exec sessions then have the locked memory limit of their container (default none)")
	s.interfaces.register(f, env)
	s.hook.register(f)
	s.metrics.register(f)
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	f.AddGoFlag(logging.Lookup("v"))
	f.AddGoFlag(logging.Lookup("vmodule"))
}

func (s *serve) run(ctx context.Context) error {
	s.cfg.PodUID = types.UID(s.podUID)
	s.cfg.Site = plan.DefaultSite()
	s.cfg.Site.Memlock = v1alpha1.Memlock(s.memlock)
	if s.moveDevices && s.hook.dir == "" {
		return usageError{errors.New("--move-devices needs the hook, which keeps a container from starting without its devices: set --hook-dir")}
	}
	if s.moveDevices {
		mover, err := rdmanetns.NewHost()
		if err != nil {
			return err
		}
		s.cfg.Mover = mover
	}
	if err := s.interfaces.apply(&s.cfg, s.hook.dir); err != nil {
		return err
	}
	if err := s.cfg.Validate(); err != nil {
		return usageError{err}
	}
	var err error
	if s.cfg.Policy, err = readPolicy(s.cfg.PolicyFile); err != nil {
		return err
	}
	if !slices.Contains(onDeniedPolicies, s.hook.onDenied) {
		return usageError{fmt.Errorf("--memlock-denied %q: want one of %v", s.hook.onDenied, onDeniedPolicies)}
	}
	if s.cfg.Metrics, err = s.metrics.instruments(); err != nil {
		return err
	}
	client, err := newClient(s.kubeconfig)
	if err != nil {
		return err
	}
	s.cfg.Troubles = client.Troubles
	presence, err := s.enter()
	if err != nil {
		return err
	}
	if s.cfg.Hook, err = s.hook.install(ctx); err != nil {
		return err
	}
	s.cfg.Hook.Presence = s.moveDevices
	if s.cfg.Hook.Path != "" {
		go s.hook.pruneLater(ctx, s.cfg.Hook.Path, s.cfg.CDIDir)
	}
	driver, err := dra.New(s.cfg, client)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "version", version.String("dra-driver"), "node", s.cfg.NodeName)
	page := statuspage.Handler(driver.Status)
	defer serveStatus(ctx, statusSocket(&s.cfg, s.podUID), page)()
	defer s.metrics.start(ctx, s.cfg.Metrics, driver, page, client)()
	if err := driver.Run(ctx); err != nil {
		return err
	}
	s.leave(ctx, presence)
	return nil
}

// enter makes sure of the directory of the claims' records.
func (s *serve) enter() (*claimstore.Presence, error) {
	boot, err := claimstore.ReadBoot()
	if err != nil {
		return nil, err
	}
	return claimstore.Enter(s.cfg.StateDir, s.cfg.PluginDir(), boot)
}

// leave takes the driver's files off the node when nothing needs them, as after the
// chart was uninstalled: no claim is prepared, and no other driver is there. One that
// comes back makes them anew.
func (s *serve) leave(ctx context.Context, presence *claimstore.Presence) {
	last, err := presence.Leave(func() error {
		if s.hook.dir == "" {
			return nil
		}
		_, err := prune(s.hook.dir, "", s.cfg.CDIDir)
		return err
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some files of the driver stay on the node")
	} else if last {
		klog.FromContext(ctx).Info("No claim is prepared and no other driver is here: the driver's files are removed")
	}
}

// readPolicy reads the configuration file, if there is one. At start a bad one is bad
// usage: there is no earlier one that could stay in force.
func readPolicy(path string) (*policy.Config, error) {
	if path == "" {
		return policy.Default(), nil
	}
	c, err := offer.ReadPolicy(path)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// newClient makes a client without client-go's default limit of 5 requests a
// second: the library gets each claim from the API server, so that a node would
// prepare no more than five claims a second. The API server's priority and
// fairness keeps order between clients.
func newClient(kubeconfig string) (*apiclient.Client, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client: %w; outside of a pod, name a --kubeconfig", err)
	}
	config.QPS = -1
	// A claim or slice as protobuf costs the API server and the driver a fraction of the work for its JSON. And a claim that
	// is written whole has parameters that must come back byte by byte.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "dra-driver-rdma/" + version.Get()
	return apiclient.New(config)
}
