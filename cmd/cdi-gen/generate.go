package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// generate holds the flags of the verb.
type generate struct {
	host           hostFlags
	output         string
	format         string
	kind           string
	names          []string
	nodes          []string
	noAll          bool
	noHook         bool
	hookPath       string
	memlock        string
	allowExclusive bool
}

func newGenerate() *cobra.Command {
	g := &generate{}
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
would not change is not written.
` + exitCodesHelp,
		Example: `  cdi-gen generate                                   look at the spec
  cdi-gen generate --output /etc/cdi                 for all runtimes, kept over reboots
  cdi-gen generate --device 'mlx5_*' --exclude mlx5_1
  cdi-gen generate --memlock 4Gi --output /var/run/cdi`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return g.run(cmd) },
	}
	f := cmd.Flags()
	g.host.register(f)
	f.StringVarP(&g.output, "output", "o", "", "directory, or file ending in .json or .yaml (default standard output)")
	f.StringVar(&g.format, "format", "", "json or yaml (default by the ending of --output, else yaml)")
	f.StringVar(&g.kind, "kind", cdi.KindHCA, "CDI kind of the devices, vendor/class")
	f.StringSliceVar(&g.names, "names", strategyNames(), "how devices are named: ibdev, pci")
	f.StringSliceVar(&g.nodes, "nodes", []string{string(cdi.Verbs), string(cdi.CM)}, "nodes each device gives: verbs, cm, mad, sm (mad and sm can reconfigure the fabric)")
	f.BoolVar(&g.noAll, "no-all", false, "leave out the device that stands for all")
	f.BoolVar(&g.noHook, "no-hook", false, "leave out the hook that raises the locked memory limit")
	f.StringVar(&g.hookPath, "hook-path", "", "the hook program on the host (default rdma-hook beside this program, else "+defaultHookPath+")")
	f.StringVar(&g.memlock, "memlock", "unlimited", "locked memory limit of containers: unlimited, or a size such as 4Gi")
	f.BoolVar(&g.allowExclusive, "allow-exclusive-netns", false, "write the spec although RDMA devices are bound to network namespaces (only containers in the host's network can use them)")
	return cmd
}

func strategyNames() []string {
	var names []string
	for _, s := range cdi.NameStrategies {
		names = append(names, string(s))
	}
	return names
}

func (g *generate) run(cmd *cobra.Command) error {
	if g.noHook && (cmd.Flags().Changed("memlock") || cmd.Flags().Changed("hook-path")) {
		return usagef("--no-hook leaves out the hook that --memlock and --hook-path are for")
	}
	opt, err := g.options()
	if err != nil {
		return err
	}
	target, format, err := g.target()
	if err != nil {
		return err
	}
	snap, err := g.host.discover()
	if err != nil {
		return err
	}
	devices, left := cdi.HostDevices(snap, opt)
	switch {
	case len(devices) == 0:
		return g.nothing(cmd, target, snap, left)
	case snap.NetnsMode == rdma.NetnsExclusive && !g.allowExclusive:
		return coded{exitExclusive, errors.New(exclusiveAdvice)}
	}
	spec, err := cdi.NewSpec(g.kind, devices)
	if err != nil {
		return err
	}
	if err := write(cmd, target, spec, format); err != nil {
		return err
	}
	return partial(snap, left)
}

const exclusiveAdvice = "this host is in exclusive network namespace mode: an RDMA device can be opened only in the network namespace it belongs to, " +
	"so a container with a network of its own would get a device it cannot open; set \"options ib_core netns_mode=1\" in /etc/modprobe.d and reboot, " +
	"or pass --allow-exclusive-netns for containers that use the host's network"

// write puts a spec on standard output, or where --output says.
func write(cmd *cobra.Command, target *target, spec *specs.Spec, format cdi.Format) error {
	if target == nil {
		data, err := cdi.Encode(spec, format)
		if err != nil {
			return err
		}
		if _, err := cmd.OutOrStdout().Write(data); err != nil {
			return fmt.Errorf("write spec to standard output: %w", err)
		}
		return nil
	}
	changed, err := target.store.Write(target.base, spec, format)
	if err != nil {
		return err
	}
	word := "is up to date"
	if changed {
		word = "written"
	}
	cmd.PrintErrf("%s %s: %d devices, CDI %s\n", target.store.Path(target.base, format), word, len(spec.Devices), spec.Version)
	return nil
}

// nothing reports a host without devices. A spec from better days names devices
// that are gone, so it is removed, if it is the file that would have been written.
// It stays when devices were only not readable, or not asked for.
func (g *generate) nothing(cmd *cobra.Command, target *target, snap *rdma.Snapshot, left error) error {
	switch {
	case len(snap.Problems) > 0:
		return fmt.Errorf("the RDMA devices could not be read: %w", problems(snap, left))
	case g.host.filtered():
		return coded{exitNothing, fmt.Errorf("of the devices that --device and --exclude leave: %w", left)}
	case target == nil:
		return coded{exitNothing, left}
	}
	removed, err := target.store.Remove(target.base)
	if err != nil {
		return err
	}
	if removed {
		cmd.PrintErrf("%s removed: its devices are gone\n", filepath.Join(target.store.Dir, target.base))
	}
	return coded{exitNothing, left}
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

func (g *generate) options() (cdi.HostOptions, error) {
	opt := cdi.HostOptions{NoAll: g.noAll}
	if err := checkKind(g.kind); err != nil {
		return opt, err
	}
	for _, n := range g.names {
		s := cdi.NameStrategy(n)
		if s != cdi.NameIBDev && s != cdi.NamePCI {
			return opt, usagef("--names %q: want ibdev or pci", n)
		}
		opt.Names = append(opt.Names, s)
	}
	for _, n := range g.nodes {
		class, err := cdi.ParseNodeClass(n)
		if err != nil {
			return opt, usagef("--nodes: %w", err)
		}
		opt.Nodes = append(opt.Nodes, class)
	}
	if len(opt.Names) == 0 || len(opt.Nodes) == 0 {
		return opt, usagef("--names and --nodes need at least one value each")
	}
	hook, err := g.hook()
	opt.Hook = hook
	return opt, err
}

// checkKind checks a --kind. A dot in the class is valid CDI, from 0.6.0 on only.
func checkKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return usagef("--kind %q: want vendor/class: %w", kind, err)
	}
	if strings.Contains(class, ".") {
		return usagef("--kind %q: podman before 4.7 refuses a class with a dot", kind)
	}
	return nil
}

const defaultHookPath = "/usr/bin/rdma-hook"

// hook returns the hook that goes into the spec. A path that is not there would
// fail every container start, so it is an error here.
func (g *generate) hook() (*cdi.Hook, error) {
	if _, err := hook.ParseSize(g.memlock); err != nil {
		return nil, usagef("--memlock: %w", err)
	}
	if g.noHook {
		return nil, nil
	}
	path, err := g.findHook()
	if err != nil {
		return nil, err
	}
	return &cdi.Hook{Path: path, Args: []string{"--memlock", g.memlock}}, nil
}

func (g *generate) findHook() (string, error) {
	candidates := []string{g.hookPath}
	if g.hookPath == "" {
		candidates = []string{defaultHookPath}
		if self, err := os.Executable(); err == nil && g.host.root == "/" {
			candidates = []string{filepath.Join(filepath.Dir(self), "rdma-hook"), defaultHookPath}
		}
	}
	var errs []error
	for _, path := range candidates {
		if !filepath.IsAbs(path) {
			return "", usagef("--hook-path %q: want an absolute path on the host", path)
		}
		err := checkExecutable(filepath.Join(g.host.root, path))
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", usagef("find the hook that raises the locked memory limit: %w; install rdma-hook, name it with --hook-path, or do without it with --no-hook", errors.Join(errs...))
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return &fs.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}
	}
	return nil
}

// target is a file to write.
type target struct {
	store cdi.Store
	base  string
}

// target reads --output and --format; nil means standard output.
func (g *generate) target() (*target, cdi.Format, error) {
	format := cdi.YAML
	if g.format != "" {
		var err error
		if format, err = cdi.ParseFormat(g.format); err != nil {
			return nil, "", usagef("--format: %w", err)
		}
	}
	if g.output == "" {
		return nil, format, nil
	}
	dir, base, ext := g.output, cdi.SpecName(g.kind, ""), strings.TrimPrefix(filepath.Ext(g.output), ".")
	info, err := os.Stat(g.output)
	isDir := err == nil && info.IsDir()
	switch {
	case isDir || ext == "":
	case ext == string(cdi.JSON) || ext == string(cdi.YAML):
		if g.format != "" && g.format != ext {
			return nil, "", usagef("--output %q ends in .%s but --format is %s: runtimes read a file by its ending", g.output, ext, g.format)
		}
		format = cdi.Format(ext)
		dir, base = filepath.Dir(g.output), strings.TrimSuffix(filepath.Base(g.output), "."+ext)
	default:
		return nil, "", usagef("--output %q: runtimes read only files that end in .json or .yaml", g.output)
	}
	return &target{cdi.Store{Dir: dir, Sync: true}, base}, format, nil
}
