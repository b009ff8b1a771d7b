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
	"github.com/rdma-dev/dra-driver-rdma/internal/gen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// recipe has the flags that generate and watch share: how to make a spec of a host.
type recipe struct {
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
	config         string
	env            []string
	mounts         []string
	site           hostconfig.Container // environment and mounts of the config file
	warned         map[string]bool
	quiet          bool // print nothing if nothing changes
	ncclTopology   string
	userspace      string
	target         string
	allowExclusive bool
}

func (r *recipe) register(f *pflag.FlagSet) {
	r.warned = map[string]bool{}
	r.host.register(f)
	f.StringVar(&r.config, "config", "", "YAML `FILE` of kind HostConfig; flags win over it")
	f.StringVar(&r.kind, "kind", cdi.KindHCA, "CDI kind of the devices, `VENDOR/CLASS`")
	f.StringSliceVar(&r.names, "names", words(cdi.DefaultNames),
		"`LIST` of names: ibdev, pci, guid, netdev")
	f.StringSliceVar(&r.nodes, "nodes", words(rdma.DefaultClasses),
		"nodes to give, a `LIST` of verbs, cm, mad, sm")
	f.BoolVar(&r.noAll, "no-all", false, "leave out the CDI device \"all\"")
	f.BoolVar(&r.noHook, "no-hook", false, "leave out the hook that raises the locked memory limit")
	f.StringVar(&r.hookPath, "hook-path", "", "`PATH` of the hook on the host (default: search for it)")
	f.StringVar(&r.memlock, "memlock", "unlimited", "locked memory `SIZE`; a process may raise it")
	f.StringVar(&r.limit, "limit", "", "what a container may use of each HCA, `handles=N,objects=M`")
	f.StringVar(&r.onDenied, "on-denied", hostconfig.OnDeniedWarn, "what to do if a limit cannot be set: `warn|fail`")
	f.StringArrayVar(&r.env, "env", nil, "`NAME=VALUE` for every container (repeatable)")
	f.StringArrayVar(&r.mounts, "mount", nil, "`HOST[:CONTAINER]` to mount read-only (repeatable)")
	f.StringVar(&r.ncclTopology, "nccl-topology", "", "topology `FILE` for NCCL, which NCCL_TOPO_FILE names")
	f.StringVar(&r.userspace, "userspace", hostconfig.UserspaceImage, "whose RDMA libraries to use, `image|host`")
	f.StringVar(&r.target, "target", "", "check that a `RUNTIME` loads the spec, such as podman-4.3")
	f.BoolVar(&r.allowExclusive, "allow-exclusive-netns", false,
		"write the spec although only the host's network can use it")
}

// warn prints each warning only once, even if the spec is made repeatedly.
func (r *recipe) warn(cmd *cobra.Command, warning string) {
	if r.warned[warning] {
		return
	}
	r.warned[warning] = true
	cmd.PrintErrln("warning:", warning)
}

// words converts named strings to plain strings.
func words[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// resolve merges the config file into the flags, and checks everything that does not need the host. Flags take
// precedence.
func (r *recipe) resolve(cmd *cobra.Command) error {
	set := cmd.Flags().Changed
	if r.noHook && (set("memlock") || set("hook-path") || set("on-denied")) {
		return usagef("--no-hook leaves out the hook that --memlock, --hook-path and --on-denied are for")
	}
	if !slices.Contains([]string{hostconfig.OnDeniedWarn, hostconfig.OnDeniedFail}, r.onDenied) {
		return usagef("--on-denied %q: want warn or fail", r.onDenied)
	}
	if err := r.mergeConfig(cmd.Context(), set); err != nil {
		return err
	}
	if r.noHook && r.limit != "" {
		return usagef("--no-hook leaves out the hook that sets the limits on HCAs")
	}
	if !slices.Contains([]string{hostconfig.UserspaceImage, hostconfig.UserspaceHost}, r.userspace) {
		return usagef("--userspace %q: want image or host", r.userspace)
	}
	if r.target != "" {
		if _, err := runtimes.Lookup(r.target); err != nil {
			return usagef("--target: %w", err)
		}
	}
	return checkKind(r.kind)
}

// mergeConfig sets the fields without a flag from the config file.
func (r *recipe) mergeConfig(ctx context.Context, set func(string) bool) error {
	if r.config == "" {
		return nil
	}
	data, err := yamlread.Config.ReadArgument(r.config)
	debugRead(ctx, r.config, err)
	if err != nil {
		return usagef("read --config: %w", err)
	}
	c, err := hostconfig.Parse(data)
	if err != nil {
		return usagef("read --config %q: %w", r.config, err)
	}
	prefer(&r.memlock, c.Memlock, set("memlock"))
	prefer(&r.ncclTopology, c.NCCLTopology, set("nccl-topology"))
	prefer(&r.userspace, c.Userspace, set("userspace"))
	prefer(&r.onDenied, c.OnDenied, set("on-denied"))
	prefer(&r.limit, c.Limits.String(), set("limit"))
	prefer(&r.names, c.Names, set("names"))
	prefer(&r.nodes, c.Nodes, set("nodes"))
	prefer(&r.host.exclude, c.Exclude, set("exclude"))
	r.site.Env, r.site.Mounts = c.Env, c.Mounts
	return nil
}

// prefer replaces the default of a flag by a value of the config file, if the file has one and the flag is not set.
func prefer[T string | []string](field *T, value T, set bool) {
	if !set && len(value) > 0 {
		*field = value
	}
}

// options converts the flags to options of package cdi.
func (r *recipe) options(ctx context.Context) (opt cdi.HostOptions, err error) {
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
	edits, err := r.edits(ctx)
	if err != nil {
		return opt, err
	}
	opt.Env, opt.Mounts = edits.Env, edits.Mounts
	if opt.Limit, err = r.limits(); err != nil {
		return opt, err
	}
	opt.Hook, err = r.hook(ctx)
	return opt, err
}

// edits returns the environment and mounts of every device. A mount of a missing file must be an error here, because
// every container start would fail.
func (r *recipe) edits(ctx context.Context) (hostconfig.Edits, error) {
	flags, err := r.siteFlags()
	if err != nil {
		return hostconfig.Edits{}, err
	}
	all := r.site.Under(flags)
	edits := all.Edits()
	for _, m := range edits.Mounts {
		if _, err := hostfs.Stat(r.host.files(ctx), m.HostPath); err != nil {
			return hostconfig.Edits{}, usagef("mount: %w; every container start would fail", r.host.below(err))
		}
	}
	return edits, nil
}

// siteFlags returns the environment and mounts of the flags.
func (r *recipe) siteFlags() (hostconfig.Container, error) {
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

// outcome is the spec of a host. The spec is nil if there is no device for containers.
type outcome struct {
	spec   *specs.Spec
	snap   *rdma.Snapshot // of the chosen devices
	left   error          // which devices were omitted, and why
	hidden int            // the number of devices that were not chosen
}

// makeSpec reads the host and makes the spec. It calls warn with each warning.
func (r *recipe) makeSpec(ctx context.Context, opt cdi.HostOptions, warn func(string)) (*outcome, error) {
	snap, others, err := r.host.discover(ctx)
	if err != nil {
		return nil, err
	}
	if r.userspace == hostconfig.UserspaceHost && len(snap.HCAs) > 0 {
		mounts, err := r.libraries(ctx, snap, opt, warn)
		if err != nil {
			return nil, err
		}
		opt.Mounts = slices.Concat(opt.Mounts, mounts)
	}
	devices, left := cdi.HostDevices(snap, opt)
	if len(devices) == 0 {
		return &outcome{snap: snap, left: left, hidden: others}, nil
	}
	if snap.NetnsMode == rdma.NetnsExclusive && !r.allowExclusive {
		return nil, coded{exitExclusive, errors.New(exclusiveAdvice)}
	}
	spec, err := cdi.NewSpec(r.kind, devices)
	if err != nil {
		return nil, err
	}
	return &outcome{spec, snap, left, others}, r.checkTarget(spec)
}

// libraries returns the mounts of the host's RDMA user space for the HCAs of a snapshot.
func (r *recipe) libraries(ctx context.Context, snap *rdma.Snapshot, opt cdi.HostOptions, warn func(string)) (
	[]cdi.Mount, error) {
	mad := slices.ContainsFunc(opt.Nodes, rdma.NodeClass.Privileged)
	plan, err := findLibraries(r.host.files(ctx), snap, mad)
	if err != nil {
		return nil, fmt.Errorf("--userspace host: %w", err)
	}
	for _, w := range plan.Warnings {
		warn(w)
	}
	warn("containers need glibc " + plan.GLIBC + " or newer for the host's libraries; see cdi-gen userspace --help")
	return plan.Mounts, nil
}

func (r *recipe) checkTarget(spec *specs.Spec) error {
	if r.target == "" {
		return nil
	}
	target, err := runtimes.Lookup(r.target)
	if err == nil {
		err = target.Check(spec)
	}
	if err != nil {
		return usagef("--target %s: %w", r.target, err)
	}
	return nil
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
