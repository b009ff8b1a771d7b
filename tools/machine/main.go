// Machine makes, imports and extracts the fixture machines of internal/test/fixture: text archives of hosts' RDMA
// sysfs.
//
//	go run ./tools/machine generate            # rewrite the archives that are described in internal/test/fixture/synth
//	go run ./tools/machine import cdi-gen-report.tar.gz --name NAME
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
		Short:         "Make, import and extract fixture machines",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	archives := root.PersistentFlags().String("machines", "internal/test/fixture/machines", "directory of the archives")
	root.AddCommand(generateCommand(archives), importCommand(archives), extractCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.Execute()
}
