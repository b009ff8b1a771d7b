package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the machines, each with its first sentence",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range fixture.Names() {
				m, err := fixture.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%d nodes\t%s\n", name, len(m.Nodes()), m.Summary())
			}
			return w.Flush()
		},
	}
}

func extractCommand() *cobra.Command {
	nodes := false
	cmd := &cobra.Command{
		Use:   "extract NAME DIR",
		Short: "Write a machine's sysfs to DIR/sys",
		Long: `Write a machine's sysfs to DIR/sys, for programs that take a host root. Files whose read fails on the machine become
links that cannot be followed, so their read fails too, though with another error (ELOOP).`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := fixture.Load(args[0])
			if err != nil {
				return err
			}
			if err := m.Extract(args[1]); err != nil {
				return err
			}
			if !nodes {
				return nil
			}
			return m.MakeNodes(args[1])
		},
	}
	cmd.Flags().BoolVar(&nodes, "nodes", false, "also make DIR/dev/infiniband with its device nodes (needs CAP_MKNOD)")
	return cmd
}

func synthCommand() *cobra.Command {
	functions := 0
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "Write the sysfs of a large host of N RDMA functions to DIR/sys",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return fixture.Synthesize(args[0], functions)
		},
	}
	cmd.Flags().IntVar(&functions, "functions", 64, "number of RDMA functions: PFs and VFs")
	return cmd
}
