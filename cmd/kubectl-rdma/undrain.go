package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newUndrain(p *plugin) *cobra.Command {
	d := &drainer{p: p}
	cmd := &cobra.Command{
		Use:   "undrain NODE [HCA...]",
		Short: "Put drained HCAs of a node back into service, or all of them",
		Long: `Remove the DeviceTaintRules that kubectl rdma drain wrote for HCAs of a node. Without
the name of an HCA, remove all of them for the node. Other rules stay.`,
		Example: `  kubectl rdma undrain worker-3 mlx5_2
  kubectl rdma undrain worker-3`,
		ValidArgsFunction: p.completer(hcaNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("name a node, as in kubectl rdma undrain worker-3 mlx5_2")
			}
			d.node, d.hcas = strings.TrimPrefix(args[0], "node/"), args[1:]
			return d.undrain(cmd.Context())
		},
	}
	d.o = newOutput(p.IOStreams, cmd, "text")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "show what it would do, and let the API server check it")
	return cmd
}

// undrain removes the rules of HCAs, or all of the node.
func (d *drainer) undrain(ctx context.Context) error {
	c, err := d.open(ctx, d.node, collect.Slices, collect.Rules)
	if err != nil {
		return err
	}
	remove, err := chosen(c, d.node, d.hcas)
	if err != nil {
		return err
	}
	results, err := d.rules.Remove(ctx, remove, true)
	if err == nil && !d.dryRun {
		results, err = d.rules.Remove(ctx, remove, false)
	}
	if err != nil {
		return err
	}
	if len(remove) == 0 {
		d.o.nothing("Nothing to do: no rule of kubectl rdma drain is for node " + text.Shell(d.node) + ".")
	}
	return d.report(&drain.Plan{Node: d.node, Users: []drain.User{}, Rules: remove}, results)
}

// chosen returns the rules of a node, or of HCAs of it. An HCA that is not drained is an error: its name may be wrong.
func chosen(c *model.Cluster, node string, hcas []string) (out []resourceapi.DeviceTaintRule, _ error) {
	drains := slices.DeleteFunc(lists.Drains(c), func(o model.Drain) bool { return o.Node != node })
	var names []string
	for _, o := range drains {
		if len(hcas) == 0 {
			names = append(names, o.Rules...)
		}
	}
	for _, hca := range hcas {
		hca = model.HCAOf(hca)
		named := func(o model.Drain) bool { return o.HCA != "" && (o.HCA == hca || o.IBDev == hca) }
		i := slices.IndexFunc(drains, named)
		if i < 0 {
			return nil, notDrained(node, hca, drains)
		}
		names = append(names, drains[i].Rules...)
	}
	for i := range c.Rules {
		if slices.Contains(names, c.Rules[i].Name) {
			out = append(out, c.Rules[i])
		}
	}
	return out, nil
}

func notDrained(node, hca string, drains []model.Drain) error {
	if len(drains) == 0 {
		return fmt.Errorf("undrain HCA %q of node %q: nothing of this node is drained", hca, node)
	}
	var names []string
	for i := range drains {
		if drains[i].HCA == "" {
			return fmt.Errorf("undrain HCA %q of node %q: the whole node is drained; kubectl rdma undrain %s puts all of it "+
				"back", hca, node, text.Shell(node))
		}
		names = append(names, drains[i].String())
	}
	return fmt.Errorf("undrain HCA %q of node %q: it is not drained; drained are: %s", hca, node, text.Some(names, ", "))
}

// hcaNames completes a node, then its HCAs.
func hcaNames(ctx context.Context, client kubernetes.Interface, _ string, args []string) (out []string, err error) {
	if len(args) == 0 {
		return nodeNames(ctx, client, "", nil)
	}
	c, err := collect.Reader{Client: client}.Read(ctx, collect.Slices)
	if err != nil {
		return nil, err
	}
	devices, err := lists.Devices(ctx, c, lists.DeviceFilter{Nodes: model.NodeChoice{Names: args[:1]}})
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if name, ok := d.Attributes[rdma.AttributeIBDev].(string); ok && !slices.Contains(args[1:], name) {
			out = append(out, name)
		}
	}
	return out, nil
}
