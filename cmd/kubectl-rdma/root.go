package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// plugin has kubectl's flags and streams, which all commands share.
type plugin struct {
	genericiooptions.IOStreams
	config          *genericclioptions.ConfigFlags
	driverNamespace string
}

// driverNamespace is the flag that kubectl does not know.
const driverNamespace = "driver-namespace"

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	p := &plugin{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}
	p.config.WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		// A command reads a few lists of several pages each, and then ends.
		c.QPS, c.Burst = 50, 300
		c.WarningHandler = rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
		return c
	})
	root := &cobra.Command{
		Use:   "kubectl-rdma",
		Short: "Show the RDMA devices of a cluster, and why a pod does not get them",
		Long: `Show the RDMA devices that the driver rdma.dev publishes, which pods use them, and
which GPUs are near them. Explain why a pod does not get the devices that its claims
request.

Only drain, undrain and test change the cluster. The others change nothing: they list
ResourceSlices, DeviceClasses, DeviceTaintRules, Nodes, ResourceClaims and Pods. If you
may not list one of them, they show the rest, and say what is missing.

` + exitCodes.Help(),
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl rdma"},
	}
	cli.AddVersion(root, "kubectl-rdma")
	p.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&p.driverNamespace, driverNamespace, "",
		"the `NAMESPACE` of the driver, if its DeviceClasses do not say it")
	root.SetUsageTemplate(fewGlobalFlags(root.UsageTemplate()))
	complete(root, "namespace", p.completer(namespaceNames))
	complete(root, "context", contexts(p.config))
	root.AddCommand(newStatus(p), newNodes(p), newDevices(p), newDevice(p), newClaims(p), newTopology(p), newWhy(p),
		newRails(p), newDrain(p), newUndrain(p),
		group("test", "Test HCAs by real traffic (advanced)", newTestNodes(p)),
		group("policy", "Try a policy of the driver", newPolicyTest(p)), newReport(p), newBundle(p))
	return root
}

// group returns a command that only holds another one.
func group(use, short string, command *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(command)
	return cmd
}

// fewGlobalFlags has the usage of each command list those of kubectl's flags that most users know, and name the command
// that lists all: they fill a screen.
func fewGlobalFlags(template string) string {
	cobra.AddTemplateFunc("few", func(all *pflag.FlagSet) string {
		few := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range []string{"namespace", "context", "kubeconfig"} {
			few.AddFlag(all.Lookup(name))
		}
		return few.FlagUsages()
	})
	return strings.Replace(template, "{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		"{{few .InheritedFlags}}\nUse \"{{.Root.DisplayName}} --help\" for kubectl's flags that are not here.", 1)
}

// client connects to the API server.
func (p *plugin) client() (kubernetes.Interface, error) {
	config, err := p.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// namespace returns the namespace from the flags or the kubeconfig.
func (p *plugin) namespace() (string, error) {
	name, _, err := p.config.ToRawKubeConfigLoader().Namespace()
	return name, err
}

// connect sets a reader's client and the driver's namespace from the flags. It sends no request.
func (p *plugin) connect(r *collect.Reader) (err error) {
	r.DriverNamespace = p.driverNamespace
	r.Client, err = p.client()
	return err
}

// read reads a cluster, and warns about objects that it could not read.
func (p *plugin) read(ctx context.Context, r collect.Reader, about collect.Kind,
	others ...collect.Kind) (*model.Cluster, error) {
	if err := p.connect(&r); err != nil {
		return nil, err
	}
	return readBy(ctx, r, p.ErrOut, about, others...)
}

// readBy reads with a reader whose client is set.
func readBy(ctx context.Context, r collect.Reader, errOut io.Writer, about collect.Kind,
	others ...collect.Kind) (*model.Cluster, error) {
	c, err := r.Read(ctx, about, others...)
	if err != nil {
		return nil, err
	}
	warn(errOut, c)
	return c, nil
}

// warn names the objects of a cluster that could not be read, and the pods that only look like the driver's.
func warn(to io.Writer, c *model.Cluster) {
	for _, u := range c.Unread.Why() {
		text.Fprintf(to, "Warning: the answer is incomplete: %s\n", text.Bound(u, text.MaxForeign))
	}
	if names := c.Lookalikes(); names != "" {
		text.Fprintf(to, "Warning: %s\n", names)
	}
}
