package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// recipeFlags are the flags that generate and watch share: how to make a spec of a host.
type recipeFlags struct {
	host           hostFlags
	kind           string
	names          []string
	nodes          []string
	noAll          bool
	noHook         bool
	hookPath       string
	memlock        string
	limit          string
	onDenied       string
	onUnusable     string
	config         string
	env            []string
	mounts         []string
	ncclTopology   string
	userspace      string
	target         string
	allowExclusive bool
}

func (r *recipeFlags) register(f *pflag.FlagSet) {
	r.host.register(f)
	f.StringVar(&r.config, "config", "", "YAML `FILE` of kind HostConfig; flags win over it")
	f.StringVar(&r.kind, "kind", cdi.KindHCA, "CDI kind of the devices, `VENDOR/CLASS`")
	f.StringSliceVar(&r.names, "names", words(cdi.DefaultNames),
		"`LIST` of names: ibdev, pci, guid, netdev")
	f.StringSliceVar(&r.nodes, "nodes", words(rdma.DefaultClasses),
		"nodes: a `LIST` of verbs, cm, psm, mad, sm")
	f.BoolVar(&r.noAll, "no-all", false, "leave out the CDI device \"all\"")
	f.BoolVar(&r.noHook, "no-hook", false, "leave out the hook that raises the locked memory limit")
	f.StringVar(&r.hookPath, "hook-path", "", "`PATH` of the hook on the host (default: search for it)")
	f.StringVar(&r.memlock, "memlock", "unlimited", "locked memory `SIZE`; a process may raise it")
	f.StringVar(&r.limit, "limit", "", "what a container may use of each HCA, `handles=N,objects=M`")
	f.StringVar(&r.onDenied, "on-denied", string(args.Clamp), args.OnDeniedUsage)
	f.StringVar(&r.onUnusable, "on-unusable", string(args.Warn), args.OnUnusableUsage)
	f.StringArrayVar(&r.env, "env", nil, "`NAME=VALUE` for every container (repeatable)")
	f.StringArrayVar(&r.mounts, "mount", nil, "`HOST[:CONTAINER]` to mount read-only (repeatable)")
	f.StringVar(&r.ncclTopology, "nccl-topology", "", "topology `FILE` for NCCL, which NCCL_TOPO_FILE names")
	f.StringVar(&r.userspace, "userspace", hostconfig.UserspaceImage, "whose RDMA libraries to use, `image|host`")
	f.StringVar(&r.target, "target", "", "check that a `RUNTIME` loads the spec: podman (this host's), or podman-4.3")
	f.BoolVar(&r.allowExclusive, "allow-exclusive-netns", false,
		"write the spec although only the host's network can use it")
}

// warnOnce returns a function that prints each warning only once, even if the spec is made repeatedly.
func warnOnce(cmd *cobra.Command) func(string) {
	warned := map[string]bool{}
	return func(warning string) {
		if !warned[warning] {
			warned[warning] = true
			cmd.PrintErrln("warning:", warning)
		}
	}
}

// words converts named strings to plain strings.
func words[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// recipe is how to make the spec of a host. It is made once from flags and configuration, and nobody changes it.
type recipe struct {
	host hostFlags
	kind string
	// options are those of the spec. The hook has a path only in the options that prerequisites returns.
	options  cdi.HostOptions
	hookPath string // "" to search for the hook
	// libraries means that containers get the host's RDMA libraries.
	libraries bool
	// target is the runtime that must load the spec, nil for any. targetFlag is its name in errors.
	target         *runtimes.Target
	targetFlag     string
	allowExclusive bool
}

// recipe merges the config file into the flags, and checks everything that does not need the host. Flags take
// precedence.
func (r *recipeFlags) recipe(cmd *cobra.Command) (out recipe, err error) {
	set := cmd.Flags().Changed
	if r.noHook && (set("memlock") || set("hook-path") || set("on-denied") || set("on-unusable")) {
		return out, usagef("--no-hook leaves out the hook that --memlock, --hook-path, --on-denied and --on-unusable are for")
	}
	if _, err := args.ParseOnDenied(r.onDenied); err != nil {
		return out, usagef("--on-denied: %w", err)
	}
	if _, err := args.ParseOnUnusable(r.onUnusable); err != nil {
		return out, usagef("--on-unusable: %w", err)
	}
	site, err := r.mergeConfig(cmd, set)
	if err != nil {
		return out, err
	}
	if r.noHook && r.limit != "" {
		return out, usagef("--no-hook leaves out the hook that sets the limits on HCAs")
	}
	if !slices.Contains([]string{hostconfig.UserspaceImage, hostconfig.UserspaceHost}, r.userspace) {
		return out, usagef("--userspace %q: want image or host", r.userspace)
	}
	out = recipe{
		host: r.host, kind: r.kind, hookPath: r.hookPath, libraries: r.userspace == hostconfig.UserspaceHost,
		targetFlag: r.target, allowExclusive: r.allowExclusive,
	}
	if r.target != "" {
		target, err := r.lookupTarget(cmd.Context())
		if err != nil {
			return out, usagef("--target: %w", err)
		}
		out.target, out.targetFlag = &target, target.String()
	}
	if err := checkKind(r.kind); err != nil {
		return out, err
	}
	out.options, err = r.options(site)
	return out, err
}

// lookupTarget returns the release of --target. A runtime without a version is the one of this host.
func (r *recipeFlags) lookupTarget(ctx context.Context) (runtimes.Target, error) {
	if runtimes.Program(r.target) == "" {
		return runtimes.Lookup(r.target)
	}
	example := r.target + "-" + exampleVersion[r.target]
	return localTarget(ctx, r.host.root, r.target, "name the version, such as --target "+example)
}

// exampleVersion is a release of each runtime, for errors.
var exampleVersion = map[string]string{
	runtimes.Podman: "5.4", runtimes.Containerd: "2.0", runtimes.Docker: "28.0", runtimes.CRIO: "1.33",
}

// mergeConfig sets the fields without a flag from the config file. It returns the file's environment and mounts.
func (r *recipeFlags) mergeConfig(cmd *cobra.Command, set func(string) bool) (site hostconfig.Container, err error) {
	if r.config == "" {
		return site, nil
	}
	c, err := readConfig(cmd, r.config)
	if err != nil {
		return site, err
	}
	prefer(&r.memlock, c.Memlock, set("memlock"))
	prefer(&r.ncclTopology, c.NCCLTopology, set("nccl-topology"))
	prefer(&r.userspace, c.Userspace, set("userspace"))
	prefer(&r.onDenied, c.OnDenied, set("on-denied"))
	prefer(&r.onUnusable, c.OnUnusable, set("on-unusable"))
	prefer(&r.limit, c.Limits.String(), set("limit"))
	prefer(&r.names, c.Names, set("names"))
	prefer(&r.nodes, c.Nodes, set("nodes"))
	prefer(&r.host.exclude, c.Exclude, set("exclude"))
	return hostconfig.Container{Env: c.Env, Mounts: c.Mounts}, nil
}

// readConfig reads the file of the flag --config.
func readConfig(cmd *cobra.Command, file string) (*hostconfig.Config, error) {
	data, err := yamlread.Config.ReadArgument(file, cmd.InOrStdin())
	if err != nil {
		return nil, usagef("read --config: %w", err)
	}
	c, err := hostconfig.Parse(data)
	if err != nil {
		return nil, usagef("read --config %q: %w", file, err)
	}
	return c, nil
}

// prefer replaces the default of a flag by a value of the config file, if the file has one and the flag is not set.
func prefer[T string | []string](field *T, value T, set bool) {
	if !set && len(value) > 0 {
		*field = value
	}
}

// options converts the flags to options of package cdi. site is the environment and the mounts of the config file.
func (r *recipeFlags) options(site hostconfig.Container) (opt cdi.HostOptions, err error) {
	opt.NoAll = r.noAll
	for _, n := range r.names {
		s, err := cdi.ParseNameStrategy(n)
		if err != nil {
			return opt, usagef("--names: %w", err)
		}
		opt.Names = append(opt.Names, s)
	}
	for _, n := range r.nodes {
		class, err := rdma.ParseNodeClass(n)
		if err != nil {
			return opt, usagef("--nodes: %w", err)
		}
		opt.Nodes = append(opt.Nodes, class)
	}
	flags, err := r.siteFlags()
	if err != nil {
		return opt, err
	}
	all := site.Under(flags)
	edits := all.Edits()
	opt.Env, opt.Mounts = edits.Env, edits.Mounts
	if opt.Limit, err = r.limits(); err != nil {
		return opt, err
	}
	opt.Hook, err = r.hook()
	return opt, err
}

// siteFlags returns the environment and mounts of the flags.
func (r *recipeFlags) siteFlags() (hostconfig.Container, error) {
	c := hostconfig.Container{NCCLTopology: r.ncclTopology, Env: map[string]string{}}
	for _, s := range r.env {
		name, value, err := hostconfig.ParseEnv(s)
		if err != nil {
			return c, usagef("--env: %w", err)
		}
		c.Env[name] = value
	}
	for _, s := range r.mounts {
		m, err := hostconfig.ParseMount(s)
		if err != nil {
			return c, usagef("--mount: %w", err)
		}
		c.Mounts = append(c.Mounts, m)
	}
	if errs := c.Validate(); len(errs) > 0 {
		flag, _, _ := strings.Cut(errs[0].Field, "[")
		return c, usagef("--%s: %w", map[string]string{"mounts": "mount", "ncclTopology": "nccl-topology"}[flag], errs[0].Err)
	}
	return c, nil
}

// prerequisites returns the options with the hook of the host. It returns an error if the host lacks the hook or a file
// to mount, because every container start would fail.
func (r *recipe) prerequisites(ctx context.Context) (cdi.HostOptions, error) {
	opt := r.options
	for _, m := range opt.Mounts {
		if _, err := hostfs.Stat(r.host.files(), m.HostPath); err != nil {
			return opt, usagef("mount: %w; every container start would fail", r.host.below(err))
		}
	}
	if opt.Hook == nil {
		return opt, nil
	}
	path, err := r.findHook(ctx)
	opt.Hook = &cdi.Hook{Path: path, Options: opt.Hook.Options}
	return opt, err
}

// outcome is the spec of a host. The spec is nil if there is no device for containers.
type outcome struct {
	spec   *specs.Spec
	snap   *rdma.Snapshot // of the chosen devices
	left   error          // which devices were omitted, and why
	hidden int            // the number of devices that were not chosen
}

// read reads the host and makes its spec. opt are those that prerequisites returned. It calls warn with each warning.
func (r *recipe) read(ctx context.Context, opt cdi.HostOptions, warn func(string)) (*outcome, error) {
	snap, others, err := r.host.discover()
	if err != nil {
		return nil, err
	}
	if r.libraries && len(snap.HCAs) > 0 {
		mounts, err := r.findLibraries(ctx, snap, warn)
		if err != nil {
			return nil, err
		}
		opt.Mounts = slices.Concat(opt.Mounts, mounts)
	}
	out := &outcome{snap: snap, hidden: others}
	out.spec, out.left, err = r.spec(snap, opt)
	return out, err
}

// spec makes the spec of a snapshot, nil if it has no device for containers. left is which devices were omitted, and
// why. It is a pure function.
func (r *recipe) spec(snap *rdma.Snapshot, opt cdi.HostOptions) (spec *specs.Spec, left, err error) {
	devices, left := cdi.HostDevices(snap, opt)
	if len(devices) == 0 {
		return nil, left, nil
	}
	if snap.NetnsMode == rdma.NetnsExclusive && !r.allowExclusive {
		return nil, left, coded{exitExclusive, errors.New(exclusiveAdvice)}
	}
	spec, err = cdi.NewSpec(r.kind, devices)
	if err == nil && r.target != nil {
		if err = r.target.Check(spec); err != nil {
			err = usagef("--target %s: %w", r.targetFlag, err)
		}
	}
	return spec, left, err
}

// findLibraries returns the mounts of the host's RDMA user space for the HCAs of a snapshot.
func (r *recipe) findLibraries(ctx context.Context, snap *rdma.Snapshot, warn func(string)) ([]cdi.Mount, error) {
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

// checkKind validates a --kind. CDI allows a dot in the class only from 0.6.0 on.
func checkKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return usagef("--kind %q: want vendor/class: %w", kind, err)
	}
	if err := cdi.CheckKind(kind); err != nil {
		return usagef("--kind: %w", err)
	}
	if strings.Contains(class, ".") {
		return usagef("--kind %q: podman before 4.7 refuses a class with a dot", kind)
	}
	if kind == cdi.KindClaim {
		return usagef("--kind %q: that kind is dra-driver's, whose claims it names", kind)
	}
	return nil
}
