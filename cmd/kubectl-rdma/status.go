package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
)

func newStatus(p *plugin) *cobra.Command {
	var o *output
	var all, watch bool
	var tests string
	var reader collect.Reader
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which pods use which HCAs, by job, with problems first",
		Long: `Show the pods that have claims for RDMA devices, by job. Jobs and pods with problems
come first: a device with a fault, a claim without devices, a container that does not
start or fails, a pod that cannot end. One row sums up the other pods of a job with
more than four of them; -o wide shows each pod.

With -A, the first lines count the cluster: nodes by the state of their driver, HCAs that
are drained or have a fault, and pods with a problem or still waiting. A note follows if the
API server lacks shares. Below the pods are the HCAs that somebody drained (kubectl rdma
drain), the longest first.

With --tests, it shows which HCAs kubectl rdma test found slow or has not tested yet, and
how old the results are.

JOB is the JobSet, the LeaderWorkerSet or the controller of the pod. Pods that have
ended are left out, unless Kubernetes ended them.`,
		Example: `  kubectl rdma status
  kubectl rdma status -A --watch
  kubectl rdma status -l batch.kubernetes.io/job-name=allreduce -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if reader.Namespace, err = p.namespace(); err != nil {
				return err
			}
			if all {
				reader.Namespace = metav1.NamespaceAll
			}
			if err := p.connect(&reader); err != nil {
				return err
			}
			show := func(o *output, c *model.Cluster) error {
				standing, err := readStanding(cmd.Context(), reader.Client, c, tests)
				if err != nil {
					return err
				}
				return o.status(c, lists.Pods(cmd.Context(), c), standing, all, nothingIn(c, noneIn(reader.Namespace)))
			}
			others := []collect.Kind{
				collect.UserPods, collect.Slices, collect.Classes, collect.Rules, collect.Templates, collect.Events,
				collect.Pods,
			}
			if all {
				others = append(others, collect.EmptyNodes)
			}
			if watch {
				return o.watch(cmd.Context(), reader, show, collect.Claims, others...)
			}
			c, err := readBy(cmd.Context(), reader, p.ErrOut, collect.Claims, others...)
			if err != nil {
				return err
			}
			return show(o, c)
		},
	}
	o = newOutput(p.IOStreams, cmd, "table", "wide", "name")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show the pods of all namespaces")
	cmd.Flags().StringVar(&tests, "tests", "", "also show what tests in this `NAMESPACE` say (kubectl rdma test)")
	complete(cmd, "tests", p.completer(namespaceNames))
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status again after each change, until interrupted")
	cmd.Flags().StringVarP(&reader.UserPods.LabelSelector, "selector", "l", "", "label `SELECTOR` of the pods")
	return cmd
}

// readStanding reads the results of tests in a namespace, nil for none.
func readStanding(ctx context.Context, client kubernetes.Interface, c *model.Cluster,
	namespace string) (*traffic.Standing, error) {
	if namespace == "" {
		return nil, nil
	}
	records, unread, err := traffic.ReadRecords(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	hcas, err := c.ListHCAs(ctx, false, model.NodeChoice{})
	if err != nil {
		return nil, err
	}
	out := traffic.Stand(hcas, records)
	out.Unread = unread
	return out, nil
}

// status prints pods, what tests say, and what is drained in the cluster.
func (o *output) status(c *model.Cluster, pods []lists.Pod, standing *traffic.Standing, all bool,
	nothing string) error {
	drains := lists.Drains(c)
	if o.printer != nil {
		list := map[string]any{
			"items": append([]lists.Pod{}, pods...), "drained": append([]model.Drain{}, drains...),
		}
		if standing != nil {
			list["tests"] = standing
		}
		if all {
			list["fleet"] = lists.FleetOf(c, pods)
		}
		return o.object("PodList", list)
	}
	if all && o.format != "name" && len(c.Slices)+len(c.Pods) > 0 {
		if err := lists.FleetOf(c, pods).WriteText(o.Out); err != nil {
			return err
		}
		fmt.Fprintln(o.Out)
	}
	err := printList(o, podList, pods, nothing, func(pods []lists.Pod) *metav1.Table {
		return lists.PodTable(pods, all, o.format == "wide")
	})
	if err != nil || o.format == "name" {
		return err
	}
	if standing != nil {
		fmt.Fprintln(o.Out)
		for _, u := range standing.Unread {
			text.Fprintf(o.ErrOut, "Warning: %s\n", text.Bound(u, text.MaxForeign))
		}
		if err := standing.WriteText(o.Out, c.Now); err != nil {
			return err
		}
	}
	if len(drains) == 0 {
		return nil
	}
	fmt.Fprintln(o.Out)
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == "wide", NoHeaders: o.noHeaders}).
		PrintObj(lists.DrainTable(drains, c.Now), o.Out)
}

// watch calls show after each change, and prints what show prints if that is new. A terminal has only the newest.
func (o *output) watch(ctx context.Context, r collect.Reader, show func(*output, *model.Cluster) error,
	about collect.Kind, others ...collect.Kind) error {
	var view bytes.Buffer
	buffered := *o
	buffered.Out = text.Writer(&view)
	buffered.ErrOut = buffered.Out
	out := text.Unwrap(o.Out)
	last, warned := "", false
	return r.Watch(ctx, func(c *model.Cluster) error {
		if !warned {
			warn(o.ErrOut, c)
			warned = true
		}
		view.Reset()
		if err := show(&buffered, c); err != nil || view.String() == last {
			return err
		}
		last = view.String()
		if _, err := io.WriteString(out, o.heading(out, time.Now())); err != nil {
			return err
		}
		_, err := io.WriteString(out, last)
		return err
	}, about, others...)
}

// heading separates one output from the next. It clears the screen of a terminal.
func (o *output) heading(out io.Writer, now time.Time) string {
	file, ok := out.(*os.File)
	switch {
	case o.printer != nil:
		return ""
	case ok && term.IsTerminal(int(file.Fd())):
		return "\x1b[H\x1b[2J" + now.Format(time.TimeOnly) + "\n"
	}
	return "# " + now.Format(time.RFC3339) + "\n"
}
