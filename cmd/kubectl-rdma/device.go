package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
)

func newDevice(p *plugin) *cobra.Command {
	var o *output
	cmd := &cobra.Command{
		Use:   "device NODE/HCA",
		Short: "Show what is wrong with one device, and what happened to it",
		Long: `Show the state of one device, the times of its taints, what its claims say of its
health, and the node's events that name it, the newest first. HCA is the name of the
device, or the kernel's name of its HCA.

The node itself knows more: "dra-driver status" in the pod of its driver has the last
changes of rate, link and PCIe.`,
		Example: `  kubectl rdma device worker-3/mlx5_0
  kubectl rdma device worker-3/pci-0000-19-00-0 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Count(strings.TrimPrefix(args[0], "device/"), "/") != 1 {
				return cli.Usagef("name one device, as in %s worker-3/mlx5_0", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: p.completer(nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, hca, _ := strings.Cut(strings.TrimPrefix(args[0], "device/"), "/")
			c, err := p.read(cmd.Context(), collect.Reader{NodeOfEvents: node}, collect.Slices, collect.Claims, collect.Rules,
				collect.NodeEvents)
			if err != nil {
				return err
			}
			if err := p.checkNodes(cmd.Context(), []string{node}, c.Slices); err != nil {
				return err
			}
			history, err := lists.History(cmd.Context(), c, node, hca)
			if err != nil {
				return err
			}
			if o.printer != nil {
				return o.object("DeviceHistory", history)
			}
			return history.WriteText(p.Out)
		},
	}
	o = newOutput(p.IOStreams, cmd, "text")
	return cmd
}
