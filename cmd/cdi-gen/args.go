package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// launcher is a program that starts containers and reads no CDI specs. TestArgsOfNspawn runs the flags of systemd-nspawn;
// those of the others come from their documents.
type launcher struct {
	// first are flags that the launcher needs once.
	first []string
	// node returns the flags for a device node.
	node func(path string) []string
	// limits are facts that the user must know: what the flags do not give.
	limits []string
}

const (
	noHook = "no hook runs: locked memory stays as the caller has it (ulimit -l), and limits on HCAs do not apply"
	noDeny = "there is no device cgroup: file permissions alone keep a process from other devices"
)

var launchers = map[string]launcher{
	"apptainer": {
		first: []string{"--contain"},
		node:  func(path string) []string { return []string{"--bind", path} },
		limits: []string{"without --contain the container has the whole /dev of the host, all HCAs included; " +
			"with it, home and /tmp are empty: bind what the program needs", noDeny, noHook},
	},
	"enroot": {
		node: func(path string) []string {
			return []string{"--mount", path + ":" + path + ":none:x-create=file,bind,rw,nosuid,noexec"}
		},
		limits: []string{"set ENROOT_RESTRICT_DEV=y: otherwise the container has the whole /dev of the host, " +
			"all HCAs included",
			"set MELLANOX_VISIBLE_DEVICES=none: otherwise a hook of enroot (99-mellanox.sh) adds the HCAs that this variable " +
				"of an image or of enroot.conf names", noDeny, noHook},
	},
	"systemd-nspawn": {
		first: []string{"--rlimit=RLIMIT_MEMLOCK=infinity"},
		node: func(path string) []string {
			return []string{"--bind=" + path, "--property=DeviceAllow=" + path} // no spaces, for $(...)
		},
		limits: []string{"no hook runs: limits on HCAs do not apply",
			"with --private-users, the container's root is a user who opens only nodes of mode 0666: the kernel cannot map " +
				"owners in /dev (devtmpfs)"},
	},
}

func newArgs() *cobra.Command {
	var host hostFlags
	var name string
	known := slices.Sorted(maps.Keys(launchers))
	cmd := &cobra.Command{
		Use:   "args --for apptainer|enroot|systemd-nspawn HCA...",
		Short: "Print the flags that give HCAs to a launcher that reads no CDI specs",
		Long: `Print the flags that give HCAs to a container of Apptainer, enroot or systemd-nspawn.
Standard error says what these flags do not give, compared with a CDI spec.
An HCA is a name of cdi-gen list, or its PCI address, with * and ?.`,
		Example: `  apptainer exec $(cdi-gen args --for apptainer mlx5_0) image.sif ibv_devinfo
  cdi-gen args --for enroot 'mlx5_*'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || slices.Contains(args, "") {
				return cli.Usagef("name at least one HCA; cdi-gen list shows them")
			}
			return nil
		},
		ValidArgsFunction: completeDevice,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, ok := launchers[name]
			if !ok {
				return cli.Usagef("--for %q: want %s", name, strings.Join(known, ", "))
			}
			host.only = args
			return printArgs(cmd, &host, l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&host.root, "host-root", "/", "`DIR` that holds the host's sys")
	f.StringVar(&name, "for", "", "`LAUNCHER`: "+strings.Join(known, ", "))
	complete := cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("for", complete); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func printArgs(cmd *cobra.Command, host *hostFlags, l launcher) error {
	snap, _, err := host.discover()
	if err != nil {
		return err
	}
	if len(snap.HCAs) == 0 {
		return &cli.Coded{Code: exitNothing, Err: cdi.ErrNoDevices}
	}
	if snap.NetnsMode == rdma.NetnsExclusive {
		cmd.PrintErrln("note: this host is in exclusive network namespace mode: only a container in the host's network " +
			"can open the devices")
	}
	words := slices.Clone(l.first)
	var errs []error
	for i := range snap.HCAs {
		nodes, err := cdi.SelectNodes(&snap.HCAs[i], snap.RDMACM, rdma.DefaultClasses)
		errs = append(errs, err)
		for _, n := range nodes {
			if strings.ContainsAny(n.Path(), ": ,") { // what separates the parts of a flag
				errs = append(errs, fmt.Errorf("node %q: its name cannot stand in a flag", n.Path()))
				continue
			}
			if flags := l.node(n.Path()); !slices.Contains(words, flags[len(flags)-1]) {
				words = append(words, flags...)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), text.Shells(words...)); err != nil {
		return fmt.Errorf("write flags to standard output: %w", err)
	}
	for _, limit := range l.limits {
		cmd.PrintErrln("note:", limit)
	}
	if cm := snap.RDMACM; cm != nil && cm.Missing {
		only := &rdma.Snapshot{RDMACM: cm}
		return partial(only, lacking(only))
	}
	return nil
}
