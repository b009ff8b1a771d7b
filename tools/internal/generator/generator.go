// Package generator is the command of a tool that writes one generated file of the checkout.
package generator

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Main writes what generate returns to a file, a path from the root of the checkout, or with
// --print to standard output. It ends the program.
func Main(name, what, file string, generate func() ([]byte, error)) {
	var print bool
	cmd := &cobra.Command{
		Use: name, Short: "Write " + what, Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := generate()
			if err != nil {
				return err
			}
			if print {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return fmt.Errorf("write %s: %w (run in the root of the checkout)", what, err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print it")
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}
