package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newDevices() *cobra.Command {
	var root, output string
	var dirs []string
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices that container runtimes of this host would find now",
		Long: `Show the devices of all CDI specs, whoever wrote them, as a container runtime finds them
now. Standard error names files that a runtime refuses, devices that two files of one
directory define, which it refuses too, and devices that give another HCA than the one
they were written for.`,
		Example: `  cdi-gen devices
  cdi-gen devices -o json | jq -r '.conflicts[]?.files[]'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := devicesWriters[output]
			if !ok {
				return cli.Usagef("--output %q: want table, json, yaml or name", output)
			}
			dirs, err := specDirs(root, dirs)
			if err != nil {
				return err
			}
			found := cdi.ReadRegistry(hostfs.DirFS(root), dirs...)
			if err := write(cmd.OutOrStdout(), found); err != nil {
				return fmt.Errorf("write devices: %w", err)
			}
			if len(found.Devices) == 0 {
				cmd.PrintErrf("no CDI device in %s; cdi-gen generate --to %s writes those of RDMA\n",
					strings.Join(dirs, " and "), cdi.StaticDir)
			}
			return errors.Join(judgeDirs(cmd, root, dirs), unresolved(found), misplaced(cmd, root, found))
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "host-root", "/", "`DIR` that holds the host's etc and var/run")
	f.StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json, yaml or name")
	registerSpecDirs(f, &dirs)
	return cmd
}

// registerSpecDirs adds the flag for the directories that a runtime reads.
func registerSpecDirs(f *pflag.FlagSet, dirs *[]string) {
	all := []string{cdi.StaticDir, cdi.DynamicDir}
	f.StringSliceVar(dirs, "spec-dir", all, "`DIR` of specs, the last wins (repeatable)")
}

var devicesWriters = map[string]func(io.Writer, *cdi.Registry) error{
	"table": func(w io.Writer, r *cdi.Registry) error {
		var rows [][]string
		for _, d := range r.Devices {
			rows = append(rows, []string{d.Name, d.File, strings.Join(d.Overrides, ", ")})
		}
		return text.Table(w, "DEVICE\tFILE\tOVERRIDES", rows)
	},
	"json": func(w io.Writer, r *cdi.Registry) error { return text.JSON(w, r) },
	"yaml": func(w io.Writer, r *cdi.Registry) error { return text.YAML(w, r) },
	"name": func(w io.Writer, r *cdi.Registry) error {
		for _, d := range r.Devices {
			if _, err := fmt.Fprintln(w, d.Name); err != nil {
				return err
			}
		}
		return nil
	},
}

// unresolved returns an error for what a runtime refuses, nil if there is nothing.
func unresolved(r *cdi.Registry) error {
	errs := []error{refused(r)}
	for _, f := range r.Faults {
		if f.Unread {
			errs = append(errs, invalidf("what %q gives is not known: %s", f.File, f.Reason))
			continue
		}
		errs = append(errs, invalidf("runtimes refuse %q: %s", f.File, f.Reason))
	}
	return errors.Join(errs...)
}

// refused returns an error for devices that several files of one directory define.
func refused(r *cdi.Registry) error {
	var errs []error
	for _, c := range r.Conflicts {
		errs = append(errs, invalidf("runtimes refuse %s, which more than one file defines: %s; remove all but one",
			text.Some(c.Devices, ", "), strings.Join(c.Files, " and ")))
	}
	return errors.Join(errs...)
}

// misplaced compares the devices of specs with the HCAs of the host, all devices if no names are given. It returns an
// error for those that give another HCA than they are for, and names those that do not say for which HCA they are.
func misplaced(cmd *cobra.Command, root string, found *cdi.Registry, names ...string) error {
	var slots *cdi.Slots
	var p purposes
	for i := range found.Devices {
		d := &found.Devices[i]
		if len(names) > 0 && !slices.Contains(names, d.Name) || !d.GivesHCA() {
			continue
		}
		if slots == nil {
			snap, _, err := (&hostFlags{root: root}).discover()
			if err != nil {
				cmd.PrintErrf("note: whether the specs fit the host's HCAs is not known: %v\n", err)
				return nil
			}
			slots = cdi.NewSlots(snap)
		}
		p.fits(d, slots)
	}
	return p.end(cmd)
}

// purposes are devices of specs that do not fit the host.
type purposes struct{ wrong, unknown []string }

// fits reports whether a device gives no other HCA than the one that it is for, as far as that is known.
func (p *purposes) fits(d *cdi.Resolved, slots *cdi.Slots) bool {
	known, err := d.Purpose(slots)
	if err != nil {
		p.wrong = append(p.wrong, fmt.Sprintf("%s in %q: %v", d.Name, d.File, err))
	} else if !known {
		p.unknown = append(p.unknown, d.Name)
	}
	return err == nil
}

func (p *purposes) end(cmd *cobra.Command) error {
	if len(p.unknown) > 0 {
		cmd.PrintErrf("note: no spec says for which HCA these devices are, so whether it is the right one is not known: %s\n",
			text.Some(p.unknown, ", "))
	}
	if len(p.wrong) > 0 {
		return &cli.Coded{Code: exitDrift, Err: fmt.Errorf("the host's HCAs have changed since the spec was written: %s; write the spec "+
			"again with cdi-gen generate --to", text.Some(p.wrong, "; "))}
	}
	return nil
}

// warnRivals warns of other files that define devices of a spec that is about to be written. It looks in the directory
// of the target, and in the other directory that runtimes read.
func warnRivals(t *target, format cdi.Format, spec *specs.Spec, warn func(string)) {
	abs, err := filepath.Abs(t.store.Dir)
	if err != nil {
		return // the write will fail with the reason
	}
	dirs := []string{abs}
	if root, standard, ok := standardDir(abs); ok {
		other := map[string]string{cdi.StaticDir: cdi.DynamicDir, cdi.DynamicDir: cdi.StaticDir}[standard]
		dirs = append(dirs, filepath.Join(root, other))
	}
	written := cdi.SpecFile{Spec: spec}
	for _, f := range cdi.ReadDirs(hostfs.DirFS("/"), dirs...) {
		if f.Path == filepath.Join(abs, filepath.Base(t.path(cdi.JSON))) ||
			f.Path == filepath.Join(abs, filepath.Base(t.path(cdi.YAML))) {
			continue // format says which of the two stays
		}
		defined := f.Devices()
		names := slices.DeleteFunc(written.Devices(), func(name string) bool { return !slices.Contains(defined, name) })
		if len(names) == 0 {
			continue
		}
		what := "runtimes refuse a device that two files of one directory define; remove one of them"
		if f.Dir != abs {
			what = "of one device in both directories, runtimes take the one in " + cdi.DynamicDir
		}
		warn(fmt.Sprintf("%s also defines %s: %s", f.Path, text.Some(names, ", "), what))
	}
}
