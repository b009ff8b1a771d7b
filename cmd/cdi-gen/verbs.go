package main

import (
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run:   func(cmd *cobra.Command, _ []string) { cmd.Println(version.String("cdi-gen")) },
	}
}
