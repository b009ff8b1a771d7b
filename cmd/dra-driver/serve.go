package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// serve holds the flags of the driver.
type serve struct {
	cfg         dra.Config
	kubeconfig  string
	moveDevices bool
	interfaces  interfaceFlags
	hook        hookFlags
	metrics     metricsFlags
}

var serveCodes = exitcode.List{
	exitcode.OK: "stopped by a signal", exitcode.Failed: "failed",
	exitcode.Usage: exitcode.BadUsage + ", or a bad policy",
}

func newServe(env func(string) string) *cobra.Command {
	s := &serve{cfg: dra.Config{Site: plan.DefaultSite(), Genl: &genl.Kernel{}}}
	cmd := &cobra.Command{
		Use:   "dra-driver",
		Short: "Kubernetes DRA node driver for RDMA devices",
		Long: `dra-driver publishes the RDMA devices (HCAs) of a node to Kubernetes. The pods of
a ResourceClaim get the HCAs that are allocated to it, and can lock memory without a
capability.

It runs on every node with RDMA devices; install it with the Helm chart. Logs go to
standard error.

` + serveCodes.Help(),
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.register(cmd.Flags(), env)
	return cmd
}

func (s *serve) register(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&s.cfg.NodeName, "node-name", env("NODE_NAME"), "Kubernetes `NAME` of this node (default $NODE_NAME)")
	f.StringVar((*string)(&s.cfg.PodUID), "pod-uid", env("POD_UID"),
		"`UID` of the driver's pod, for rolling updates (default $POD_UID)")
	f.StringVar(&s.cfg.HostRoot, "host-root", "/", "`DIRECTORY` that holds the host's sys and dev")
	f.StringVar(&s.cfg.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "root `DIRECTORY` of the kubelet")
	f.StringVar(&s.cfg.StateDir, "state-dir", "/run/rdma.dev/state",
		"`DIRECTORY` for the records of prepared claims and the files of their containers: on a tmpfs, at the same path on "+
			"the host; do not change it while claims are prepared")
	f.StringVar(&s.cfg.CDIDir, "cdi-dir", cdi.DynamicDir, "`DIRECTORY` of the CDI specs of claims")
	f.StringVar(&s.kubeconfig, "kubeconfig", env("KUBECONFIG"),
		"kubeconfig `FILE` (default $KUBECONFIG, else the pod's service account)")
	f.StringVar((*string)(&s.cfg.Site.Memlock), "memlock", string(v1alpha1.MemlockUnlimited),
		"soft limit (`SIZE`) of locked memory where neither claim nor class has one; a process may raise it: unlimited, a "+
			"size such as 4Gi or 4g, or inherit")
	f.StringVar(&s.cfg.PolicyFile, "config", "", "policy `FILE`: which devices each HCA publishes, "+
		"and defaults for every claim; changes take effect without a restart")
	f.BoolVar(&s.cfg.ClaimStatus, "claim-status", true, "write the names of their HCAs on the node into the status of "+
		"claims")
	f.BoolVar(&s.cfg.ClaimEvents, "claim-events", true, "write events about failures to claims and to the pods that "+
		"use them")
	f.BoolVar(&s.cfg.DeviceMetadata, "device-metadata", true,
		"give containers files with the attributes of their devices (KEP-5304), below "+
			"/var/run/kubernetes.io/dra-device-attributes")
	f.StringVar(&s.cfg.DeviceInfoDir, "device-info-dir", "",
		"`DIRECTORY` of device information files for Multus, for devices with a resourceName: "+
			"/var/run/k8s.cni.cncf.io/devinfo/dp; empty for none")
	f.StringVar(&s.cfg.LeafFiles.Host, "leaf-file", "/run/rdma.dev/links/links.json",
		"`FILE` below --host-root in which the host says to which leaf switches its HCAs are connected, for the source file "+
			"of leafFrom")
	f.StringVar(&s.cfg.LeafFiles.Site, "leaf-table", "",
		"`FILE` of the site with the leaf switches of HCAs: the source table of leafFrom, and the wiring plan with which "+
			"other sources are compared (default none)")
	f.StringVar(&s.cfg.NodeFeatureDir, "node-feature-dir", "",
		"`DIRECTORY` of the feature files of Node Feature Discovery, for the label rdma.dev/leaf-switch of the node "+
			"(leafLabelRail): /etc/kubernetes/node-feature-discovery/features.d; empty for none")
	f.BoolVar(&s.cfg.RuntimeCDI, "runtime-cdi-enabled", false, "containerd 1.7 on this node has enable_cdi set to true")
	f.BoolVar(&s.moveDevices, "move-devices", false, "on a host in exclusive RDMA network namespace mode, move RDMA "+
		"devices into the network namespaces of pods that use them; needs --nri-socket, the host's network, CAP_NET_ADMIN "+
		"and CAP_SYS_ADMIN")
	f.StringVar(&s.cfg.NRISocket, "nri-socket", "", "`SOCKET` of the container runtime's Node Resource Interface, as "+
		nri.DefaultSocket+"; exec sessions then have the locked memory limit of their container (default none)")
	s.interfaces.register(f, env)
	s.hook.register(f)
	s.metrics.register(f)
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	f.AddGoFlag(logging.Lookup("v"))
	f.AddGoFlag(logging.Lookup("vmodule"))
}

func (s *serve) run(ctx context.Context) error {
	if s.moveDevices && s.hook.dir == "" {
		return cli.Usagef("--move-devices needs the hook, which keeps a container from starting without its " +
			"devices: set --hook-dir")
	}
	var err error
	if s.cfg.Mover, err = newMover(s.moveDevices); err != nil {
		return err
	}
	if s.interfaces.attach && s.hook.dir == "" {
		return cli.Usagef("--attach-interfaces needs the hook, which keeps a container from starting without " +
			"its interface: set --hook-dir")
	}
	if err := s.interfaces.configure(&s.cfg); err != nil {
		return err
	}
	if err := s.cfg.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	if s.cfg.Policy, err = s.readPolicy(ctx); err != nil {
		return err
	}
	if err := s.hook.validate(); err != nil {
		return err
	}
	if s.cfg.Metrics, err = s.metrics.instruments(); err != nil {
		return err
	}
	client, troubles, err := newClient(s.kubeconfig)
	if err != nil {
		return err
	}
	s.cfg.Troubles = troubles
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
	page := nodestatus.Handler(driver.Status)
	defer serveStatus(ctx, statusSocket(&s.cfg), page, slicesHandler(driver.Try))()
	defer s.metrics.start(ctx, s.cfg.NodeName, s.cfg.Metrics, driver, page, client)()
	if err := driver.Run(ctx); err != nil {
		return err
	}
	s.leave(ctx, presence)
	return nil
}

// newMover returns what moves HCAs into pods, nil where nobody does.
func newMover(on bool) (node.Mover, error) {
	if !on {
		return nil, nil
	}
	return rdmanetns.NewHost()
}

// enter creates the directory of the claim records and marks this driver as present. The mark lasts until leave, or
// until the process ends.
func (s *serve) enter() (*claimstore.Presence, error) {
	boot, err := claimstore.ReadBoot()
	if err != nil {
		return nil, err
	}
	return claimstore.Enter(s.cfg.StateDir, s.cfg.PluginDir(), boot)
}

// leave removes the driver's files from the node if no claim is prepared and no other driver runs, as after an
// uninstallation. A driver that starts later creates them again.
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
		klog.FromContext(ctx).Info("Removed the driver's files: no claim is prepared and no other driver runs")
	}
}

// readPolicy reads the policy at the start. With an invalid one, the driver offers nothing, but ends
// claims: without it, pods of this node could not end after a reboot. If another driver works on the node, it ends
// instead. The other one has an earlier policy in force, and a rolling update stops here.
func (s *serve) readPolicy(ctx context.Context) (*policy.Config, error) {
	c, err := readPolicy(s.cfg.PolicyFile, offer.ReadPolicy)
	if err == nil {
		return c, nil
	}
	alone, lockErr := claimstore.Alone(s.cfg.StateDir)
	if lockErr != nil {
		return nil, errors.Join(err, lockErr)
	}
	if !alone {
		return nil, fmt.Errorf("%w; another driver works on the node, with an earlier policy, and goes on", err)
	}
	klog.FromContext(ctx).Error(err, "Policy not used, nothing is offered to new claims until it is corrected")
	s.cfg.PolicyRefused = err
	return nil, nil
}

// readPolicy reads the policy, or returns the default policy if there is none. An invalid file is an error.
func readPolicy(path string, read func(string) (*policy.Config, error)) (*policy.Config, error) {
	if path == "" {
		return policy.Default(), nil
	}
	c, err := read(path)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return c, nil
}

// newClient makes a client without client-go's default limit of 5 requests per second. The driver gets each claim from
// the API server, so with the limit a node would prepare at most five claims per second. The API server limits clients
// by priority and fairness. The troubles are what goes wrong with its requests.
func newClient(kubeconfig string) (kubernetes.Interface, *apiclient.Troubles, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("configure the Kubernetes client: %w; outside of a pod, name a --kubeconfig", err)
	}
	config.QPS = -1
	// Protobuf costs the API server and the driver a fraction of the work for JSON. It also preserves the parameters of a
	// claim byte by byte when the driver writes the whole claim.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "dra-driver-rdma/" + version.Get()
	return apiclient.New(config)
}
