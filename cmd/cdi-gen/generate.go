package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func newGenerate() *cobra.Command {
	var flags specFlags
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
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check && out.toStdout() {
				return cli.Usagef("--check compares with a file: name it, or its directory, with --to")
			}
			r, err := flags.request(cmd, out)
			if err != nil {
				return err
			}
			return generate(cmd, r, check, warnOnce(cmd))
		},
	}
	flags.register(cmd.Flags())
	out.register(cmd.Flags())
	cmd.Flags().BoolVar(&flags.host.allowAbsent, "allow-absent", false,
		"devices of --device and --exclude may be absent")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; compare the file of --to with the host")
	return cmd
}

// generate makes the spec, and writes it, or compares it with the existing files.
func generate(cmd *cobra.Command, r *request, check bool, warn func(string)) error {
	target, format, err := r.out.target(r.kind)
	if err == nil && target != nil {
		err = cmp.Or(r.host.ownDir(&r.out), target.spare(format)) // check before the host is read
	}
	if err != nil {
		return err
	}
	d, err := r.make(warn)
	if err != nil {
		return err
	}
	if check {
		return drift(cmd, d, target, format)
	}
	return write(cmd, r, d, target, format, warn)
}

// outcome is the spec of a host. The spec is nil if there is no device for containers.
type outcome struct {
	spec *specs.Spec
	snap *rdma.Snapshot // of the chosen devices
	left error          // which devices were omitted, and why
	// passed means that the host has other devices, and that the flags must choose one.
	passed bool
}

// make reads the host and makes its spec. It calls warn with each warning.
func (r *request) make(warn func(string)) (*outcome, error) {
	opt, err := r.prerequisites()
	if err != nil {
		return nil, err
	}
	snap, others, err := r.host.discover()
	if err != nil {
		return nil, err
	}
	if r.libraries && len(snap.HCAs) > 0 {
		mounts, err := r.findLibraries(snap, warn)
		if err != nil {
			return nil, err
		}
		opt.Mounts = slices.Concat(opt.Mounts, mounts)
	}
	devices, left := cdi.HostDevices(snap, opt)
	d := &outcome{snap: snap, left: left, passed: others > 0 && !r.host.allowAbsent}
	if len(devices) == 0 {
		return d, nil
	}
	if snap.NetnsMode == rdma.NetnsExclusive && !r.allowExclusive {
		return nil, &cli.Coded{Code: exitExclusive, Err: errors.New(exclusiveAdvice)}
	}
	if d.spec, err = cdi.NewSpec(r.kind, devices); err != nil {
		return nil, err
	}
	if r.target != nil {
		if err := r.target.Check(d.spec); err != nil {
			return nil, cli.Usagef("--target %s: %w", r.target, err)
		}
	}
	return d, nil
}

// prerequisites returns the options with the path of the hook. It returns an error if the host lacks the hook or a file
// to mount, because every container start would fail.
func (r *request) prerequisites() (cdi.HostOptions, error) {
	opt := r.options
	for _, m := range opt.Mounts {
		if _, err := hostfs.Stat(r.host.files(), m.HostPath); err != nil {
			return opt, cli.Usagef("mount: %w; every container start would fail", r.host.below(err))
		}
	}
	if opt.Hook == nil {
		return opt, nil
	}
	path, err := r.findHook()
	opt.Hook = &cdi.Hook{Path: path, Options: opt.Hook.Options}
	return opt, err
}

// findLibraries returns the mounts of the host's RDMA user space for the HCAs of a snapshot.
func (r *request) findLibraries(snap *rdma.Snapshot, warn func(string)) ([]cdi.Mount, error) {
	mad := slices.ContainsFunc(r.options.Nodes, rdma.NodeClass.Privileged)
	plan, err := findLibraries(r.host.files(), snap, mad)
	if err != nil {
		return nil, fmt.Errorf("--userspace host: %w", err)
	}
	for _, w := range plan.Warnings {
		warn(w)
	}
	warn("containers need glibc " + plan.GLIBC + " or newer for the host's libraries; see cdi-gen userspace --help")
	return plan.Mounts, nil
}

const exclusiveAdvice = "this host is in exclusive network namespace mode: an RDMA device can be opened only in its " +
	"own network namespace, so a container with its own network would get a device that it cannot open; set \"options " +
	"ib_core netns_mode=1\" in /etc/modprobe.d and reboot, or pass --allow-exclusive-netns for containers that use the " +
	"host's network"

// write writes a spec to the file of --to, and prints the result. A nil target means standard output. Without a
// spec it removes an existing one.
func write(cmd *cobra.Command, r *request, d *outcome, t *target, format cdi.Format, warn func(string)) error {
	if d.spec == nil {
		return nothing(cmd, d, t)
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
func nothing(cmd *cobra.Command, d *outcome, t *target) error {
	gone, why := d.absent()
	if !gone || t == nil {
		return why
	}
	removed, err := t.store.Remove(t.base)
	if err != nil {
		return err
	}
	if removed {
		cmd.PrintErrf("removed the spec %s of kind %s from %s: its devices are gone\n", t.base, t.store.Kind, t.store.Dir)
	}
	return why
}

// absent returns why there is no spec, and whether the devices of an older spec are gone. They are gone if the host has
// no devices, or, with --allow-absent, none of the chosen devices. An unreadable device is not gone, nor is a device
// that the flags do not choose or do not name.
func (d *outcome) absent() (gone bool, why error) {
	switch {
	case len(d.snap.Problems) > 0:
		return false, fmt.Errorf("the RDMA devices could not be read: %w", problems(d.snap, d.left))
	case errors.Is(d.left, cdi.ErrNoneListed):
		return false, &cli.Coded{Code: exitNotChosen, Err: fmt.Errorf("%w; choose others with --names and --nodes", d.left)}
	case d.passed:
		return false, &cli.Coded{Code: exitNotChosen, Err: fmt.Errorf("of the devices that --device and --exclude leave: %w", d.left)}
	}
	return true, &cli.Coded{Code: exitNothing, Err: d.left}
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
		return &cli.Coded{Code: exitPartial, Err: fmt.Errorf("some devices are left out or incomplete: %w", err)}
	}
	return nil
}
