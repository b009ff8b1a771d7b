// Machine makes, captures and shows the fixture machines of internal/test/fixture: hosts' RDMA sysfs as text archives.
//
//	go run ./tools/machine list
//	go run ./tools/machine generate            # rewrite the archives that are described in internal/test/fixture/synth
//	go run ./tools/machine capture --name NAME --scrub
//	go run ./tools/machine extract hgx-h100 /tmp/host --nodes
//
// Run it in the root of the checkout, or give --machines.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	root := &cobra.Command{
		Use:           "machine",
		Short:         "Make, capture and show fixture machines",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	archives := root.PersistentFlags().String("machines", "internal/test/fixture/machines", "directory of the archives")
	root.AddCommand(
		listCommand(), generateCommand(archives), captureCommand(archives), importCommand(archives),
		extractCommand(), synthCommand(),
	)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.Execute()
}
