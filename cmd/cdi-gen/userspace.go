package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/userspace"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newUserspace() *cobra.Command {
	var host hostFlags
	var output, image string
	var mad bool
	cmd := &cobra.Command{
		Use:   "userspace",
		Short: "Show the RDMA libraries that --userspace host mounts, and check an image",
		Long: `Show what generate --userspace host mounts into containers: the host's RDMA
libraries, the providers of its HCAs, and the names of these. With --image it also
shows what in an unpacked image does not fit: another or an older C library, another
architecture, or libraries of the image that are found first.`,
		Example: `  cdi-gen userspace
  cdi-gen userspace --image "$(podman image mount IMAGE)"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := userspaceWriters[output]
			if !ok {
				return usagef("--output %q: want table, json or yaml", output)
			}
			snap, _, err := host.discover(cmd.Context())
			if err != nil {
				return err
			}
			report := &userspaceReport{}
			if report.Plan, err = findLibraries(host.files(cmd.Context()), snap, mad); err != nil {
				return err
			}
			if image != "" {
				if report.Problems, err = checkImage(image, report.Plan); err != nil {
					return err
				}
			}
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return fmt.Errorf("write libraries: %w", err)
			}
			if n := len(report.Problems); n > 0 {
				return coded{exitMisfit, fmt.Errorf("image %q does not fit the host's libraries: problems: %d", image, n)}
			}
			return nil
		},
	}
	host.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	cmd.Flags().StringVar(&image, "image", "", "`DIR` of an unpacked image, to check it")
	cmd.Flags().BoolVar(&mad, "mad", false, "with the libraries of fabric tools, as with --nodes mad or sm")
	return cmd
}

// userspaceReport has the mounts, and the problems that an image has with them.
type userspaceReport struct {
	*userspace.Plan
	Problems []userspace.Problem `json:"problems,omitempty"`
}

// findLibraries finds the host's RDMA user space for the HCAs of a snapshot.
func findLibraries(host fs.ReadLinkFS, snap *rdma.Snapshot, mad bool) (*userspace.Plan, error) {
	machine, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, usagef("the host's RDMA libraries are not known on %s", runtime.GOARCH)
	}
	var drivers []string
	for _, h := range snap.Usable() {
		drivers = append(drivers, h.Driver)
	}
	return userspace.Find(host, userspace.Options{Machine: machine, Drivers: drivers, MAD: mad})
}

func checkImage(dir string, plan *userspace.Plan) ([]userspace.Problem, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: errors.New("want the directory of an unpacked image")}
	}
	if err != nil {
		return nil, usagef("--image: %w", err)
	}
	return userspace.CheckImage(hostfs.DirFS(dir), plan), nil
}

var userspaceWriters = map[string]func(io.Writer, *userspaceReport) error{
	"table": writeUserspace,
	"json":  func(w io.Writer, r *userspaceReport) error { return text.JSON(w, r) },
	"yaml":  func(w io.Writer, r *userspaceReport) error { return text.YAML(w, r) },
}

// writeUserspace writes the report as text for people: mounts first, problems last.
func writeUserspace(w io.Writer, r *userspaceReport) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "HOST\tCONTAINER")
	for _, m := range r.Mounts {
		fmt.Fprintln(tw, strings.Join(text.Cells(m.HostPath, m.ContainerPath), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nproviders %s of private ABI %s; images need glibc %s or newer\n",
		cmp.Or(strings.Join(r.Drivers, ", "), "none"), r.ABI, r.GLIBC)
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
