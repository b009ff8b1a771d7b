package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/userspace"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newUserspace() *cobra.Command {
	var host hostFlags
	var output string
	var mad bool
	cmd := &cobra.Command{
		Use:   "userspace",
		Short: "Show the RDMA libraries that --userspace host mounts",
		Long: `Show what generate --userspace host mounts into containers: the host's RDMA
libraries, the providers of its HCAs, and the names of these. It also shows the glibc
that an image needs for them.`,
		Example: `  cdi-gen userspace`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := userspaceWriters[output]
			if !ok {
				return cli.Usagef("--output %q: want table, json or yaml", output)
			}
			snap, _, err := host.discover()
			if err != nil {
				return err
			}
			plan, err := findLibraries(host.files(), snap, mad)
			if err != nil {
				return err
			}
			if err := write(cmd.OutOrStdout(), plan); err != nil {
				return fmt.Errorf("write libraries: %w", err)
			}
			return nil
		},
	}
	host.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	cmd.Flags().BoolVar(&mad, "mad", false, "with the libraries of fabric tools, as with --nodes mad or sm")
	return cmd
}

// findLibraries finds the host's RDMA user space for the HCAs of a snapshot.
func findLibraries(host fs.ReadLinkFS, snap *rdma.Snapshot, mad bool) (*userspace.Plan, error) {
	machine, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, cli.Usagef("the host's RDMA libraries are not known on %s", runtime.GOARCH)
	}
	var drivers []string
	for _, h := range snap.Usable() {
		drivers = append(drivers, h.Driver)
	}
	return userspace.Find(host, userspace.Options{Machine: machine, Drivers: drivers, MAD: mad})
}

var userspaceWriters = map[string]func(io.Writer, *userspace.Plan) error{
	"table": writeUserspace,
	"json":  func(w io.Writer, p *userspace.Plan) error { return text.JSON(w, p) },
	"yaml":  func(w io.Writer, p *userspace.Plan) error { return text.YAML(w, p) },
}

// writeUserspace writes a plan as text for people.
func writeUserspace(w io.Writer, p *userspace.Plan) error {
	var rows [][]string
	for _, m := range p.Mounts {
		rows = append(rows, []string{m.HostPath, m.ContainerPath})
	}
	if err := text.Table(w, "HOST\tCONTAINER", rows); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nproviders %s of private ABI %s; images need glibc %s or newer\n",
		cmp.Or(strings.Join(p.Drivers, ", "), "none"), p.ABI, p.GLIBC)
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
