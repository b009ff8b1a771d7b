package main

import (
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func extractCommand() *cobra.Command {
	nodes := false
	cmd := &cobra.Command{
		Use:   "extract NAME DIR",
		Short: "Write a machine's sysfs to DIR/sys",
		Long: `Write a machine's sysfs to DIR/sys, for programs that take a host root. Files whose read fails on the
machine become links that cannot be followed, so their read fails too, though with another error (ELOOP).`,
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
