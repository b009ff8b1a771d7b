package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
)

// Bounds of what is asked of drivers.
const (
	maxBundled = 50        // drivers
	maxLog     = 512 << 10 // bytes of each log
)

// bundler has the flags of the command.
type bundler struct {
	p       *plugin
	nodes   nodeChoice
	kubectl kubectl
}

func newBundle(p *plugin) *cobra.Command {
	b := &bundler{p: p}
	cmd := &cobra.Command{
		Use:   "bundle [NODE...]",
		Short: "Collect one file for a bug report: what is published, events, logs of drivers",
		Long: fmt.Sprintf(`Collect what a bug report needs in one archive, a tar.gz on standard output: the status
of the cluster, ResourceSlices, claims without what their users wrote, the driver's
events, and the logs and status pages of at most %d drivers. It writes no file itself, and
says on standard error what is in the archive before it writes it.

It replaces names, addresses and GUIDs, and hides what looks like a secret. Read the
archive before you share it.

It runs kubectl logs and "dra-driver status" by kubectl exec. Without the rights for them,
or to list an object, the archive has the rest and says what is missing.`, maxBundled),
		Example: `  kubectl rdma bundle > bundle.tar.gz
  kubectl rdma bundle worker-3 worker-4 > bundle.tar.gz
  tar -xzOf bundle.tar.gz | less`,
		RunE: func(cmd *cobra.Command, names []string) error {
			b.kubectl.flags = kubectlFlags(cmd.InheritedFlags())
			return b.run(cmd.Context(), names)
		},
	}
	b.nodes.register(p, cmd)
	cmd.Flags().DurationVar(&b.kubectl.timeout, "timeout", 30*time.Second, "`TIME` for each answer of a driver")
	return cmd
}

func (b *bundler) run(ctx context.Context, names []string) error {
	if err := refuseTerminal(b.p.Out, "bundle.tar.gz"); err != nil {
		return err
	}
	source, chosen, err := b.read(ctx, names)
	if err != nil {
		return err
	}
	pods, err := source.Cluster.DriverPods(chosen)
	if err != nil {
		if !chosen.All() {
			return err
		}
		source.Missing = append(source.Missing, err.Error())
	}
	if len(pods) > maxBundled {
		source.Missing = append(source.Missing, fmt.Sprintf("logs and status pages of %d drivers: only the first %d were "+
			"asked; name other nodes", len(pods)-maxBundled, maxBundled))
		pods = pods[:maxBundled]
	}
	b.ask(ctx, source, pods)
	if err := ctx.Err(); err != nil {
		return err
	}
	files, err := source.Files()
	if err != nil {
		return err
	}
	data, err := support.TarGz("rdma-bundle", files)
	if err != nil {
		return err
	}
	fmt.Fprint(b.p.ErrOut, string(files[0].Data))               // what is in it
	if _, err := text.Unwrap(b.p.Out).Write(data); err != nil { // an archive is no text
		return fmt.Errorf("write the archive to standard output: %w", err)
	}
	return nil
}

// read reads the objects, and returns the chosen nodes.
func (b *bundler) read(ctx context.Context, names []string) (*bundle.Source, model.NodeChoice, error) {
	quiet := *b.p
	quiet.ErrOut = &bytes.Buffer{} // the archive says what is missing
	c, chosen, err := b.nodes.read(ctx, &quiet, names, aboutCluster...)
	if err != nil {
		return nil, chosen, err
	}
	source := &bundle.Source{Cluster: c, Version: version.Get(), Missing: missing(c)}
	var status bytes.Buffer
	view := output{format: "wide", IOStreams: genericiooptions.IOStreams{Out: &status, ErrOut: &status}}
	shown := bundle.HideDrains(c)
	if err := view.status(shown, lists.Pods(ctx, shown), nil, true, noResources); err != nil {
		source.Missing = append(source.Missing, fmt.Sprintf("the status: %v", err))
	}
	source.Status = status.String()
	client, err := b.p.client()
	if err == nil {
		source.Events, err = collect.Reader{Client: client}.DriverEvents(ctx)
	}
	if err != nil {
		source.Missing = append(source.Missing, fmt.Sprintf("events of the driver: %v", err))
	}
	return source, chosen, nil
}

// ask asks the drivers for their logs and status pages.
func (b *bundler) ask(ctx context.Context, source *bundle.Source, pods []corev1.Pod) {
	source.Drivers = make([]bundle.Driver, len(pods))
	problems := make([][]string, len(pods))
	askEach(pods, func(i int) { source.Drivers[i], problems[i] = b.askOne(ctx, &pods[i]) })
	for _, p := range problems {
		source.Missing = append(source.Missing, p...)
	}
}

// askOne asks the driver of a node, and returns what it lacks.
func (b *bundler) askOne(ctx context.Context, pod *corev1.Pod) (d bundle.Driver, problems []string) {
	d.Node = pod.Spec.NodeName
	get := func(what string, run func() ([]byte, string, int)) []byte {
		out, said, code := run()
		if code == 0 {
			return out
		}
		if said == "" {
			said = fmt.Sprintf("no answer within %v", b.kubectl.timeout)
		}
		problems = append(problems, fmt.Sprintf("%s of the driver of node %s: %s", what, d.Node, said))
		return nil
	}
	d.Log = get("the log", func() ([]byte, string, int) { return b.kubectl.logs(ctx, pod, false, maxLog) })
	if hasRestarted(pod) {
		d.Previous = get("the log before the restart", func() ([]byte, string, int) {
			return b.kubectl.logs(ctx, pod, true, maxLog)
		})
	}
	d.Page = get("the status page", func() ([]byte, string, int) {
		return b.kubectl.exec(ctx, pod, nil, "status", "--output=json")
	})
	return d, problems
}

func hasRestarted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == "driver" && c.RestartCount > 0 {
			return true
		}
	}
	return false
}
