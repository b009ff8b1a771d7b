package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// specFlags are the flags that generate and watch share: how to make the spec of a host.
type specFlags struct {
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

func (f *specFlags) register(set *pflag.FlagSet) {
	f.host.register(set)
	set.StringVar(&f.config, "config", "", "YAML `FILE` of kind HostConfig; flags win over it")
	set.StringVar(&f.kind, "kind", cdi.KindHCA, "CDI kind of the devices, `VENDOR/CLASS`")
	set.StringSliceVar(&f.names, "names", words(cdi.DefaultNames),
		"`LIST` of names: ibdev, pci, guid, netdev")
	set.StringSliceVar(&f.nodes, "nodes", words(rdma.DefaultClasses),
		"nodes: a `LIST` of verbs, cm, psm, mad, sm")
	set.BoolVar(&f.noAll, "no-all", false, "leave out the CDI device \"all\"")
	set.BoolVar(&f.noHook, "no-hook", false, "leave out the hook that raises the locked memory limit")
	set.StringVar(&f.hookPath, "hook-path", "", "`PATH` of the hook on the host (default: search for it)")
	set.StringVar(&f.memlock, "memlock", "unlimited", "locked memory `SIZE`; a process may raise it")
	set.StringVar(&f.limit, "limit", "", "what a container may use of each HCA, `handles=N,objects=M`")
	set.StringVar(&f.onDenied, "on-denied", string(args.Clamp), args.OnDeniedUsage)
	set.StringVar(&f.onUnusable, "on-unusable", string(args.Warn), args.OnUnusableUsage)
	set.StringArrayVar(&f.env, "env", nil, "`NAME=VALUE` for every container (repeatable)")
	set.StringArrayVar(&f.mounts, "mount", nil, "`HOST[:CONTAINER]` to mount read-only (repeatable)")
	set.StringVar(&f.ncclTopology, "nccl-topology", "", "topology `FILE` for NCCL, which NCCL_TOPO_FILE names")
	set.StringVar(&f.userspace, "userspace", hostconfig.UserspaceImage, "whose RDMA libraries to use, `image|host`")
	set.StringVar(&f.target, "target", "", "check that a `RUNTIME` loads the spec: podman (this host's), or podman-4.3")
	set.BoolVar(&f.allowExclusive, "allow-exclusive-netns", false,
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

// request is what generate and watch are asked for. It is made once from flags and configuration, and nobody changes
// it.
type request struct {
	host hostFlags
	kind string
	// options are those of the spec. The path of the hook is "" to search for it on the host.
	options cdi.HostOptions
	// libraries means that containers get the host's RDMA libraries.
	libraries bool
	// target is the runtime that must load the spec, nil for any.
	target         *runtimes.Target
	allowExclusive bool
	out            outputFlags
}

// request puts the flags over the config file, and checks everything that does not need the host.
func (f specFlags) request(cmd *cobra.Command, out outputFlags) (*request, error) {
	config := &hostconfig.Config{}
	if f.config != "" {
		var err error
		if config, err = readConfig(cmd, f.config); err != nil {
			return nil, err
		}
	}
	f = f.over(config, cmd.Flags().Changed)
	if err := f.check(cmd.Flags().Changed); err != nil {
		return nil, err
	}
	r := &request{host: f.host, kind: f.kind, libraries: f.userspace == hostconfig.UserspaceHost,
		allowExclusive: f.allowExclusive, out: out}
	if f.target != "" {
		target, err := f.lookupTarget(cmd.Context())
		if err != nil {
			return nil, cli.Usagef("--target: %w", err)
		}
		r.target = &target
	}
	var err error
	r.options, err = f.options(hostconfig.Container{Env: config.Env, Mounts: config.Mounts})
	return r, err
}

// over returns the flags with the values of the config file where no flag is set.
func (f specFlags) over(c *hostconfig.Config, set func(flag string) bool) specFlags {
	prefer(&f.memlock, c.Memlock, set("memlock"))
	prefer(&f.ncclTopology, c.NCCLTopology, set("nccl-topology"))
	prefer(&f.userspace, c.Userspace, set("userspace"))
	prefer(&f.onDenied, c.OnDenied, set("on-denied"))
	prefer(&f.onUnusable, c.OnUnusable, set("on-unusable"))
	prefer(&f.limit, c.Limits.String(), set("limit"))
	prefer(&f.names, c.Names, set("names"))
	prefer(&f.nodes, c.Nodes, set("nodes"))
	prefer(&f.host.exclude, c.Exclude, set("exclude"))
	return f
}

// prefer replaces the default of a flag by a value of the config file, if the file has one and the flag is not set.
func prefer[T string | []string](field *T, value T, set bool) {
	if !set && len(value) > 0 {
		*field = value
	}
}

// readConfig reads the file of the flag --config.
func readConfig(cmd *cobra.Command, file string) (*hostconfig.Config, error) {
	data, err := yamlread.Config.ReadArgument(file, cmd.InOrStdin())
	if err != nil {
		return nil, cli.Usagef("read --config: %w", err)
	}
	c, err := hostconfig.Parse(data)
	if err != nil {
		return nil, cli.Usagef("read --config %q: %w", file, err)
	}
	return c, nil
}

// check rejects flags that contradict each other, and values that options does not read.
func (f *specFlags) check(set func(flag string) bool) error {
	if f.noHook && (set("memlock") || set("hook-path") || set("on-denied") || set("on-unusable")) {
		return cli.Usagef("--no-hook leaves out the hook that --memlock, --hook-path, --on-denied and --on-unusable are for")
	}
	if f.noHook && f.limit != "" {
		return cli.Usagef("--no-hook leaves out the hook that sets the limits on HCAs")
	}
	if f.hookPath != "" && !filepath.IsAbs(f.hookPath) {
		return cli.Usagef("--hook-path %q: want an absolute path on the host", f.hookPath)
	}
	if f.userspace != hostconfig.UserspaceImage && f.userspace != hostconfig.UserspaceHost {
		return cli.Usagef("--userspace %q: want image or host", f.userspace)
	}
	return checkKind(f.kind)
}

// lookupTarget returns the release of --target. A runtime without a version is the one of this host.
func (f *specFlags) lookupTarget(ctx context.Context) (runtimes.Target, error) {
	if runtimes.Program(f.target) == "" {
		return runtimes.Lookup(f.target)
	}
	example := f.target + "-" + exampleVersion[f.target]
	return localTarget(ctx, f.host.root, f.target, "name the version, such as --target "+example)
}

// exampleVersion is a release of each runtime, for errors.
var exampleVersion = map[string]string{
	runtimes.Podman: "5.4", runtimes.Containerd: "2.0", runtimes.Docker: "28.0", runtimes.CRIO: "1.33",
}

// options converts the flags to options of package cdi. site is the environment and the mounts of the config file.
func (f *specFlags) options(site hostconfig.Container) (opt cdi.HostOptions, err error) {
	opt.NoAll = f.noAll
	if opt.Names, err = parseEach("names", f.names, cdi.ParseNameStrategy); err != nil {
		return opt, err
	}
	if opt.Nodes, err = parseEach("nodes", f.nodes, rdma.ParseNodeClass); err != nil {
		return opt, err
	}
	flags, err := f.container()
	if err != nil {
		return opt, err
	}
	all := site.Under(flags)
	edits := all.Edits()
	opt.Env, opt.Mounts = edits.Env, edits.Mounts
	if f.limit != "" {
		if opt.Limit, err = args.ParseWanted(f.limit); err != nil {
			return opt, cli.Usagef("--limit: %w", err)
		}
	}
	opt.Hook, err = f.hook()
	return opt, err
}

// parseEach parses the values of a flag.
func parseEach[T any](flag string, values []string, parse func(string) (T, error)) (out []T, err error) {
	for _, value := range values {
		parsed, err := parse(value)
		if err != nil {
			return nil, cli.Usagef("--%s: %w", flag, err)
		}
		out = append(out, parsed)
	}
	return out, nil
}

// container returns the environment and mounts of the flags.
func (f *specFlags) container() (c hostconfig.Container, err error) {
	c = hostconfig.Container{NCCLTopology: f.ncclTopology, Env: map[string]string{}}
	for _, s := range f.env {
		name, value, err := hostconfig.ParseEnv(s)
		if err != nil {
			return c, cli.Usagef("--env: %w", err)
		}
		c.Env[name] = value
	}
	if c.Mounts, err = parseEach("mount", f.mounts, hostconfig.ParseMount); err != nil {
		return c, err
	}
	c.Validate(func(field string, fault error) {
		if fault != nil && err == nil {
			flag, _, _ := strings.Cut(field, "[")
			err = cli.Usagef("--%s: %w", map[string]string{"mounts": "mount", "ncclTopology": "nccl-topology"}[flag], fault)
		}
	})
	return c, err
}

// hook returns the hook for the spec, nil with --no-hook.
func (f *specFlags) hook() (*cdi.Hook, error) {
	options := args.Options{LastReport: lastReport}
	var err error
	if options.Memlock, err = args.ParseSize(f.memlock); err != nil {
		return nil, cli.Usagef("--memlock: %w", err)
	}
	onDenied, err := args.ParseOnDenied(f.onDenied)
	if err != nil {
		return nil, cli.Usagef("--on-denied: %w", err)
	}
	onUnusable, err := args.ParseOnUnusable(f.onUnusable)
	if err != nil {
		return nil, cli.Usagef("--on-unusable: %w", err)
	}
	if f.noHook {
		return nil, nil
	}
	if onDenied != args.Clamp { // the hook's default
		options.OnDenied = onDenied
	}
	if onUnusable != args.Warn {
		options.OnUnusable = onUnusable
	}
	return &cdi.Hook{Path: f.hookPath, Options: options}, nil
}

// checkKind validates a --kind. CDI allows a dot in the class only from 0.6.0 on.
func checkKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return cli.Usagef("--kind %q: want vendor/class: %w", kind, err)
	}
	if err := cdi.CheckKind(kind); err != nil {
		return cli.Usagef("--kind: %w", err)
	}
	if strings.Contains(class, ".") {
		return cli.Usagef("--kind %q: podman before 4.7 refuses a class with a dot", kind)
	}
	if kind == cdi.KindClaim {
		return cli.Usagef("--kind %q: that kind is dra-driver's, whose claims it names", kind)
	}
	return nil
}
