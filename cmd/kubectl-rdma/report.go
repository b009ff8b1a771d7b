package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/fabric"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
)

// Bounds of a report.
const (
	maxDrawn  = 16 // nodes with a PCIe tree
	maxUnread = 10 // results of tests that it names as unread
)

// reporter has the flags of the command.
type reporter struct {
	p      *plugin
	nodes  []string
	tests  string
	redact bool
	limit  time.Duration
}

func newReport(p *plugin) *cobra.Command {
	r := &reporter{p: p}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write one page about the cluster: nodes by rails, who has which HCA, why pods wait",
		Long: `Write one HTML page about the cluster to standard output. It shows each HCA by its rail
and leaf switch, its state, and the job that holds it. An HCA is free, held, excluded,
tainted, drained, miswired, degraded or not seen. The page also says why pods wait, and
what you may not read. It needs no script, no network and no other file.

It lists objects, as status -A and nodes do, and runs nothing in the cluster. It explains
one pod of each owner and request, at most 50.

With --redact, names, addresses and what looks like a secret are replaced, as in a bundle.
Read the page before you share it.`,
		Example: `  kubectl rdma report > fabric.html
  kubectl rdma report --tests rdma-test --node worker-3 > fabric.html
  kubectl rdma report --redact > fabric.html`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.nodes, "node", nil,
		fmt.Sprintf("also draw the PCIe tree of this `NODE`, at most %d (repeatable)", maxDrawn))
	f.StringVar(&r.tests, "tests", "", "also show what tests in this `NAMESPACE` say (kubectl rdma test)")
	f.BoolVar(&r.redact, "redact", false, "replace names, addresses and what looks like a secret")
	f.DurationVar(&r.limit, "search-time", 20*time.Second, "`TIME` to look for changes that would help pods")
	complete(cmd, "node", p.completer(nodeNames))
	complete(cmd, "tests", p.completer(namespaceNames))
	return cmd
}

func (r *reporter) run(ctx context.Context) error {
	if len(r.nodes) > maxDrawn {
		return cli.Usagef("draw the PCIe trees of %d nodes: name at most %d", len(r.nodes), maxDrawn)
	}
	if err := refuseTerminal(r.p.Out, "fabric.html"); err != nil {
		return err
	}
	source, err := r.source(ctx)
	if err != nil {
		return err
	}
	hide := func(s string) string { return s }
	if r.redact {
		source.LeafName, hide = (&bundle.Source{Cluster: source.Cluster}).Redact(r.tests)
		source.Cluster = bundle.HideDrains(source.Cluster)
	}
	picture, err := fabric.New(ctx, source)
	if err != nil {
		return err
	}
	return picture.WriteHTML(r.p.Out, hide)
}

// source reads the cluster, and results of tests if the user names their namespace.
func (r *reporter) source(ctx context.Context) (*fabric.Source, error) {
	c, err := r.p.read(ctx, collect.Reader{}, collect.Slices, aboutCluster...)
	if err != nil {
		return nil, err
	}
	if err := r.p.checkNodes(ctx, r.nodes, c.Slices); err != nil {
		return nil, err
	}
	s := &fabric.Source{
		Cluster: c, Drawn: r.nodes, Missing: missing(c), Version: version.Get(), Search: r.limit,
	}
	if r.tests == "" {
		return s, nil
	}
	client, err := r.p.client()
	if err != nil {
		return nil, err
	}
	var unread []string
	s.Tests, unread, err = traffic.ReadRecords(ctx, client, r.tests)
	if err != nil && !collect.Unreadable(err) {
		return nil, err
	}
	if err != nil {
		unread = []string{err.Error()}
	}
	if more := len(unread) - maxUnread; more > 0 {
		unread = append(unread[:maxUnread], fmt.Sprintf("and %d more results of tests", more))
	}
	s.Missing = append(s.Missing, unread...)
	return s, nil
}

// aboutCluster are the kinds of objects, beside slices, that a report and a bundle have.
var aboutCluster = []collect.Kind{
	collect.Claims, collect.Pods, collect.UserPods, collect.Nodes, collect.Classes, collect.Rules, collect.Templates,
	collect.Events, collect.EmptyNodes,
}

// missing says what of the cluster could not be read, and which pods look like the driver's.
func missing(c *model.Cluster) []string {
	out := c.Unread.Why()
	if names := c.Lookalikes(); names != "" {
		out = append(out, names)
	}
	return out
}

// refuseTerminal returns an error if the output, which is no text for people, would go to a terminal.
func refuseTerminal(out io.Writer, file string) error {
	if f, ok := text.Unwrap(out).(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("standard output is a terminal: add > %s", file)
	}
	return nil
}
