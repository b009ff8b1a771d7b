package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newGenerate() *cobra.Command {
	var r recipeFlags
	var out outputFlags
	var check bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write the CDI spec of this host's RDMA devices",
		Long: `Write the CDI spec of this host's RDMA devices to standard output, or to the file or
directory of --to.
docs/cdi-gen.md explains the flags, the names of devices and what a container gets.

--nodes mad or sm adds devices such as mlx5_0-mad, which can reconfigure the fabric.`,
		Example: `  cdi-gen generate --to /etc/cdi
  cdi-gen generate --device 'mlx5_*' --exclude mlx5_1 --memlock 4Gi`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check && out.toStdout() {
				return usagef("--check compares with a file: name it, or its directory, with --to")
			}
			r, err := r.recipe(cmd)
			if err != nil {
				return err
			}
			return generate(cmd, &r, &out, check, warnOnce(cmd))
		},
	}
	r.register(cmd.Flags())
	out.register(cmd.Flags())
	cmd.Flags().BoolVar(&r.host.allowAbsent, "allow-absent", false,
		"devices of --device and --exclude may be absent")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; compare the file of --to with the host")
	return cmd
}

// generate makes the spec, and writes it, or compares it with the existing files.
func generate(cmd *cobra.Command, r *recipe, out *outputFlags, check bool, warn func(string)) error {
	opt, err := r.prerequisites(cmd.Context())
	if err != nil {
		return err
	}
	target, format, err := out.target(r.kind)
	if err == nil && target != nil {
		err = cmp.Or(r.host.ownDir(out), target.spare(format)) // check before the host is read
	}
	if err != nil {
		return err
	}
	d, err := r.read(cmd.Context(), opt, warn)
	if err != nil {
		return err
	}
	if check {
		return drift(cmd, r, d, target, format)
	}
	return write(cmd, r, d, target, format, warn)
}

const exclusiveAdvice = "this host is in exclusive network namespace mode: an RDMA device can be opened only in its " +
	"own network namespace, so a container with its own network would get a device that it cannot open; set \"options " +
	"ib_core netns_mode=1\" in /etc/modprobe.d and reboot, or pass --allow-exclusive-netns for containers that use the " +
	"host's network"

// write writes a spec to the file of --to, and prints the result. A nil target means standard output. Without a
// spec it removes an existing one.
func write(cmd *cobra.Command, r *recipe, d *outcome, t *target, format cdi.Format, warn func(string)) error {
	if d.spec == nil {
		return nothing(cmd, r, d, t)
	}
	if t == nil {
		data, err := cdi.Encode(d.spec, format)
		if err != nil {
			return err
		}
		if _, err := cmd.OutOrStdout().Write(data); err != nil {
			return fmt.Errorf("write spec to standard output: %w", err)
		}
		return partial(d.snap, d.left)
	}
	if err := r.checkOutput(t, warn); err != nil {
		return err
	}
	warnRivals(t, format, d.spec, warn)
	changed, err := t.store.Write(t.base, d.spec, format)
	if err != nil {
		return t.foreign(err)
	}
	word := "is up to date"
	if changed {
		word = "written"
	}
	if changed || !t.quiet {
		cmd.PrintErrf("%s %s: %s, CDI %s\n", t.path(format), word, devices(d.spec), d.spec.Version)
	}
	return partial(d.snap, d.left)
}

// devices returns the number of a spec's devices as text.
func devices(spec *specs.Spec) string {
	return text.Count(len(spec.Devices), "device")
}

// nothing handles a host without devices. It removes an existing spec if its devices are gone.
func nothing(cmd *cobra.Command, r *recipe, d *outcome, t *target) error {
	gone, why := d.absent(r)
	if !gone || t == nil {
		return why
	}
	removed, err := t.store.Remove(t.base)
	if err != nil {
		return err
	}
	if removed {
		cmd.PrintErrf("%s removed: its devices are gone\n", filepath.Join(t.store.Dir, t.base))
	}
	return why
}

// absent returns why there is no spec, and whether the devices of an older spec are gone. They are gone if the host has
// no devices, or, with --allow-absent, none of the chosen devices. An unreadable device is not gone, nor is a device
// that the flags do not choose or do not name.
func (d *outcome) absent(r *recipe) (gone bool, why error) {
	switch {
	case len(d.snap.Problems) > 0:
		return false, fmt.Errorf("the RDMA devices could not be read: %w", problems(d.snap, d.left))
	case errors.Is(d.left, cdi.ErrNoneListed):
		return false, coded{exitNotChosen, fmt.Errorf("%w; choose others with --names and --nodes", d.left)}
	case d.hidden > 0 && !r.host.allowAbsent:
		return false, coded{exitNotChosen, fmt.Errorf("of the devices that --device and --exclude leave: %w", d.left)}
	}
	return true, coded{exitNothing, d.left}
}

// problems joins the errors of unreadable and omitted devices.
func problems(snap *rdma.Snapshot, left error) error {
	var errs []error
	for _, p := range snap.Problems {
		errs = append(errs, p)
	}
	return errors.Join(append(errs, left)...)
}

// partial returns an error with its own exit code if devices were omitted.
func partial(snap *rdma.Snapshot, left error) error {
	if err := problems(snap, left); err != nil {
		return coded{exitPartial, fmt.Errorf("some devices are left out or incomplete: %w", err)}
	}
	return nil
}
