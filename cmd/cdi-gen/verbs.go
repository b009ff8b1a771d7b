package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newRemove() *cobra.Command {
	var dir, kind string
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the spec that generate wrote",
		Long: `Remove the spec that generate --output DIR wrote, and no other file. Running
containers keep their devices; new ones can no longer ask for them.
` + exitCodesHelp,
		Example: "  cdi-gen remove --output /etc/cdi",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKind(kind); err != nil {
				return err
			}
			removed, err := cdi.Store{Dir: dir}.Remove(cdi.SpecName(kind, ""))
			if err != nil {
				return err
			}
			if !removed {
				return coded{exitNothing, fmt.Errorf("no spec of kind %s in %s", kind, dir)}
			}
			cmd.PrintErrf("removed the spec of kind %s from %s\n", kind, dir)
			return nil
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", cdi.StaticDir, "directory that generate wrote to")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind, vendor/class")
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run:   func(cmd *cobra.Command, _ []string) { cmd.Println(version.String("cdi-gen")) },
	}
}
