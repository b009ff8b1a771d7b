package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

func newTopology(p *plugin) *cobra.Command {
	var o *output
	var nodes nodeChoice
	var ascii, cluster bool
	cmd := &cobra.Command{
		Use:     "topology [NODE...]",
		Aliases: []string{"topo"},
		Short:   "Draw where the HCAs and GPUs of nodes sit, and who has them",
		Long: `Draw the PCIe roots and switches of nodes with the HCAs below them, and the devices of
other drivers that publish the standard attribute pcieRoot, such as GPUs. VFs and SFs
are counted at their PF.

With --cluster, it lists the rails of the network instead: how many nodes and HCAs each
has, their rates, and which nodes have no HCA on it.

It reads the ResourceSlices. GPU drivers publish the root there, and few the switch. On a
host, cdi-gen topology shows everything, with the distances.`,
		Example: `  kubectl rdma topology worker-3
  kubectl rdma topology worker-3 -o svg > worker-3.svg
  kubectl rdma topology --cluster`,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, chosen, err := nodes.read(cmd.Context(), p, names, collect.Claims, collect.Rules)
			if err != nil {
				return err
			}
			if cluster {
				return o.rails(lists.Rails(c, chosen))
			}
			list, err := lists.Topologies(cmd.Context(), c, chosen)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				o.nothing(noResources)
			}
			return o.topology(list, ascii)
		},
	}
	o = newOutput(p.IOStreams, cmd, "tree", "svg")
	nodes.register(p, cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "list the rails of the cluster instead")
	cmd.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII characters")
	return cmd
}

// rails prints the rails of the cluster.
func (o *output) rails(list []lists.Rail) error {
	switch {
	case o.printer != nil:
		return o.object("RailList", map[string]any{"items": list})
	case o.format == "svg":
		return cli.Usagef("an SVG shows one node: leave --cluster out, and name a node")
	case len(list) == 0:
		o.nothing(noResources)
		return nil
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(lists.RailTable(list), o.Out)
}

func (o *output) topology(list []lists.NodeTopology, ascii bool) error {
	lines := topology.BoxLines
	if ascii {
		lines = topology.ASCIILines
	}
	switch {
	case o.printer != nil:
		return o.object("TopologyList", map[string]any{"items": append([]lists.NodeTopology{}, list...)})
	case o.format == "svg" && len(list) > 1:
		return cli.Usagef("an SVG shows one node, and there are %d: name one of them", len(list))
	case o.format == "svg" && len(list) == 1:
		return list[0].WriteSVG(o.Out)
	}
	for i, n := range list {
		if i > 0 {
			fmt.Fprintln(o.Out)
		}
		text.Fprintf(o.Out, "Node %s\n", n.Node)
		if err := n.WriteTree(o.Out, lines); err != nil {
			return err
		}
	}
	return nil
}
