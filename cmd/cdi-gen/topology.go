package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

func newTopology() *cobra.Command {
	var host hostFlags
	var output string
	var ascii bool
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show where HCAs and GPUs sit, and how far they are from each other",
		Long: `Show the PCIe tree above the RDMA devices, GPUs and other accelerators of this
host, and their distances in the words of nvidia-smi topo -m:

  X     the same device
  PIX   at most one PCIe bridge: one switch, or one card
  PXB   several PCIe bridges, no host bridge
  PHB   a PCIe host bridge
  NODE  two host bridges of one NUMA node
  SYS   two NUMA nodes
  ?     two host bridges whose NUMA nodes are not known: NODE or SYS

Without --output it shows the tree and then the matrix. VFs and SFs are counted at
their PF, which is where they sit.`,
		Example: `  cdi-gen topology
  cdi-gen topology -o svg > topology.svg
  cdi-gen topology -o json | jq -r '.devices[] | "\(.name) \(.numaNode)"'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := topologyWriters[output]
			if !ok {
				return cli.Usagef("--output %q: want tree, matrix, svg, json or yaml", output)
			}
			if ascii && output != "" && output != "tree" {
				return cli.Usagef("--ascii is for the tree only, and --output is %s", output)
			}
			lines := topology.BoxLines
			if ascii {
				lines = topology.ASCIILines
			}
			return showTopology(&host, func(t *topology.Topology) error {
				return write(cmd.OutOrStdout(), t, lines)
			})
		},
	}
	host.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FORMAT`: tree, matrix, svg, json or yaml (default tree and "+
		"matrix)")
	cmd.Flags().BoolVar(&ascii, "ascii", false, "draw the tree with ASCII characters")
	return cmd
}

func showTopology(host *hostFlags, write func(*topology.Topology) error) error {
	snap, _, err := host.discover()
	if err != nil {
		return err
	}
	t := topology.Discover(sysfs.Below(host.root), snap)
	if len(t.Devices) > 0 {
		if err := write(t); err != nil {
			return fmt.Errorf("write topology: %w", err)
		}
	}
	if len(snap.HCAs) == 0 {
		return coded(exitNothing, errors.New("no RDMA device on this host: load the modules of its HCAs, or see cdi-gen "+
			"list --help"))
	}
	snap.Problems = append(snap.Problems, t.Problems...)
	return partial(snap, nil)
}

var topologyWriters = map[string]func(io.Writer, *topology.Topology, topology.Lines) error{
	"": func(w io.Writer, t *topology.Topology, lines topology.Lines) error {
		if err := t.WriteTree(w, lines); err != nil {
			return err
		}
		fmt.Fprintln(w)
		return t.WriteMatrix(w)
	},
	"tree": func(w io.Writer, t *topology.Topology, lines topology.Lines) error { return t.WriteTree(w, lines) },
	"matrix": func(w io.Writer, t *topology.Topology, _ topology.Lines) error {
		return t.WriteMatrix(w)
	},
	"svg":  func(w io.Writer, t *topology.Topology, _ topology.Lines) error { return t.WriteSVG(w) },
	"json": func(w io.Writer, t *topology.Topology, _ topology.Lines) error { return text.JSON(w, t.Report()) },
	"yaml": func(w io.Writer, t *topology.Topology, _ topology.Lines) error { return text.YAML(w, t.Report()) },
}
