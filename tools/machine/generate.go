package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/synth"
)

func generateCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Rewrite all synthetic machines from their descriptions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, host := range synth.Machines() {
				archive, err := synth.Archive(host)
				if err != nil {
					return err
				}
				changed, err := writeArchive(*dir, host.Name, archive)
				if err != nil {
					return err
				}
				if changed {
					fmt.Fprintln(cmd.OutOrStdout(), "wrote", host.Name)
				}
			}
			return nil
		},
	}
}

// writeArchive stores a machine, and tells whether that changed anything.
func writeArchive(dir, name string, archive []byte) (changed bool, err error) {
	file := filepath.Join(dir, name+".txtar")
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, archive) {
		return false, nil
	}
	if _, err := os.Stat(dir); err != nil {
		return false, fmt.Errorf("write machine %q: %w (run in the root of the checkout, or give --machines)", name, err)
	}
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		return false, fmt.Errorf("write machine %q: %w", name, err)
	}
	return true, nil
}
