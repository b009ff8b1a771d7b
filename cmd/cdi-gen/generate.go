package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newGenerate() *cobra.Command {
	var r recipe
	var out outputFlags
	var check bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write the CDI spec of this host's RDMA devices",
		Long: `Write the CDI spec of this host's RDMA devices to standard output, or to a file
or directory with --output. Each device is listed by its kernel name (mlx5_0) and
by its PCI address (pci-0000-3b-00-0); the device "all" stands for all of them.

A device gives a container its uverbs node and rdma_cm, and a hook that raises the
locked memory limit, so that neither --cap-add IPC_LOCK nor --ulimit is needed.
The spec carries the lowest CDI version that says this, and loads in podman 4.1.

The output is the same, byte for byte, as long as the devices are; a file that
would not change is not written. Only a spec of the same kind is replaced or removed,
and every other file is left to its owner. With --check nothing is written: the difference between the file and what
it should be is printed, and the exit code says whether there is one.
` + exitCodesHelp,
		Example: `  cdi-gen generate                                   look at the spec
  cdi-gen generate --output /etc/cdi                 for all runtimes, kept over reboots
  cdi-gen generate --device 'mlx5_*' --exclude mlx5_1
  cdi-gen generate --memlock 4Gi --output /var/run/cdi
  cdi-gen generate --nodes verbs,cm,mad              and mlx5_0-mad for fabric tools
  cdi-gen generate --target podman-4.3               or say why that one cannot load it
  cdi-gen generate --check --output /etc/cdi         is the file still right?`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check && out.toStdout() {
				return usagef("--check compares with a file: name it, or its directory, with --output")
			}
			if err := r.resolve(cmd); err != nil {
				return err
			}
			do := write
			if check {
				do = drift
			}
			return generate(cmd, &r, &out, do)
		},
	}
	r.register(cmd.Flags())
	out.register(cmd.Flags())
	cmd.Flags().BoolVar(&r.host.allowAbsent, "allow-absent", false,
		"what --device and --exclude name may be absent, as with services: "+
			"the spec has the others, and goes with the last one")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; compare the file of --output with the host")
	return cmd
}

// serve is what happens to a dish: it is written, or compared with what is there.
// The spec of the dish may be nil, and the target too, for standard output.
type serve func(cmd *cobra.Command, r *recipe, d *dish, t *target, format cdi.Format) error

func generate(cmd *cobra.Command, r *recipe, out *outputFlags, do serve) error {
	opt, err := r.options()
	if err != nil {
		return err
	}
	target, format, err := out.target(r.kind)
	if err == nil && target != nil {
		err = target.spare(format) // before the host is read
	}
	if err != nil {
		return err
	}
	d, err := r.cook(opt, func(warning string) { r.warn(cmd, warning) })
	if err != nil {
		return err
	}
	return do(cmd, r, d, target, format)
}

const exclusiveAdvice = "this host is in exclusive network namespace mode: an RDMA device can be opened only in the network namespace it belongs to, " +
	"so a container with a network of its own would get a device it cannot open; set \"options ib_core netns_mode=1\" in /etc/modprobe.d and reboot, " +
	"or pass --allow-exclusive-netns for containers that use the host's network"

// write puts a spec on standard output, or where --output says.
func write(cmd *cobra.Command, r *recipe, d *dish, t *target, format cdi.Format) error {
	if d.spec != nil && t == nil {
		if err := print(cmd, d.spec, format); err != nil {
			return err
		}
		return partial(d.snap, d.left)
	}
	return store(cmd, r, d, t, format, "is up to date")
}

// keep is write without a word where nothing changes.
func keep(cmd *cobra.Command, r *recipe, d *dish, t *target, format cdi.Format) error {
	return store(cmd, r, d, t, format, "")
}

func print(cmd *cobra.Command, spec *specs.Spec, format cdi.Format) error {
	data, err := cdi.Encode(spec, format)
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(data); err != nil {
		return fmt.Errorf("write spec to standard output: %w", err)
	}
	return nil
}

// store makes the file what it should be, and says so; unchanged is what it says of one
// that is.
func store(cmd *cobra.Command, r *recipe, d *dish, t *target, format cdi.Format, unchanged string) error {
	if d.spec == nil {
		return nothing(cmd, r, d, t)
	}
	changed, err := t.store.Write(t.base, d.spec, format)
	if err != nil {
		return foreign(err)
	}
	word := unchanged
	if changed {
		word = "written"
	}
	if word != "" {
		cmd.PrintErrf("%s %s: %s, CDI %s\n", t.path(format), word, devices(d.spec), d.spec.Version)
	}
	return partial(d.snap, d.left)
}

// devices says how many devices a spec has.
func devices(spec *specs.Spec) string {
	if len(spec.Devices) == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", len(spec.Devices))
}

// nothing reports a host without devices. A spec from better days names devices that
// are gone, so it is removed.
func nothing(cmd *cobra.Command, r *recipe, d *dish, t *target) error {
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

// absent says why there is no spec, and whether the devices of an older one are gone. They are
// gone when the host has none, or none of those that --device may lack. A device that could not
// be read is not gone, nor is one that the flags do not choose or give no name.
func (d *dish) absent(r *recipe) (gone bool, why error) {
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

// problems joins what could not be read and why devices were left out.
func problems(snap *rdma.Snapshot, left error) error {
	var errs []error
	for _, p := range snap.Problems {
		errs = append(errs, p)
	}
	return errors.Join(append(errs, left)...)
}

// partial turns what was left out into the exit code for it.
func partial(snap *rdma.Snapshot, left error) error {
	if err := problems(snap, left); err != nil {
		return coded{exitPartial, fmt.Errorf("some devices could not be fully read: %w", err)}
	}
	return nil
}
