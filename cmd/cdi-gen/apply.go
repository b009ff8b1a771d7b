package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/ocibundle"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// applyFlags are the flags of apply.
type applyFlags struct {
	root    string
	devices []string
	dirs    []string
	dryRun  bool
}

func newApply() *cobra.Command {
	var a applyFlags
	cmd := &cobra.Command{
		Use:   "apply BUNDLE --device NAME",
		Short: "Give devices to an OCI bundle, for runtimes that do not read CDI specs",
		Long: `Change config.json of an OCI bundle, so that runc, crun and others give its container
devices of this host's CDI specs, with their hooks. apply refuses a device that gives
another HCA than the one it was written for. It follows no symbolic link, and changes
nothing on an error. A second apply changes nothing.`,
		Example: `  cdi-gen apply /run/bundle --device mlx5_0
  cdi-gen apply . --device rdma.dev/hca=mlx5_0 --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("name the directory of one bundle")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(a.devices) == 0 {
				return cli.Usagef("name the devices with --device; cdi-gen devices -o name lists them")
			}
			err := a.run(cmd, args[0])
			if errors.Is(err, cdi.ErrUnresolved) {
				return &cli.Coded{Code: exitUnresolved, Err: fmt.Errorf("%w; cdi-gen devices shows what the specs have", err)}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.root, "host-root", "/", "`DIR` that holds the host's sys, dev and etc")
	f.StringSliceVar(&a.devices, "device", nil, "`NAME` of a device: mlx5_0, or VENDOR/CLASS=NAME (repeatable)")
	registerSpecDirs(f, &a.dirs)
	f.BoolVar(&a.dryRun, "dry-run", false, "print the change and write nothing")
	return cmd
}

func (a *applyFlags) run(cmd *cobra.Command, dir string) error {
	var err error
	if a.dirs, err = specDirs(a.root, a.dirs); err != nil {
		return err
	}
	b, err := ocibundle.Open(dir)
	if err != nil {
		return err
	}
	defer b.Close()
	old, err := b.Read()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, ocibundle.Config)
	var added string
	text, err := ocibundle.Edit(old, func(spec *oci.Spec) error {
		before := count(spec)
		host := hostfs.DirFS(a.root)
		found := cdi.ReadRegistry(host, a.dirs...)
		err := misplaced(cmd, a.root, found, a.names()...)
		if err == nil {
			err = found.Inject(spec, a.root, a.names()...)
		}
		after := count(spec)
		added = fmt.Sprintf("%s, %s, %s", text.Count(after.nodes-before.nodes, "device node"),
			text.Count(after.mounts-before.mounts, "mount"), text.Count(after.hooks-before.hooks, "hook"))
		return err
	})
	if err != nil {
		return fmt.Errorf("change %q: %w", file, err)
	}
	if bytes.Equal(old, text) {
		cmd.PrintErrf("%s has the devices already\n", file)
		return nil
	}
	if a.dryRun {
		return writeDiff(cmd.OutOrStdout(), file, file, old, text)
	}
	if err := b.Replace(text); err != nil {
		return err
	}
	cmd.PrintErrf("%s written: %s more\n", file, added)
	return nil
}

// names returns the full names of the devices.
func (a *applyFlags) names() []string {
	names := make([]string, len(a.devices))
	for i, name := range a.devices {
		names[i] = name
		if !strings.Contains(name, "=") {
			names[i] = cdi.Qualified(cdi.KindHCA, name)
		}
	}
	return names
}

// counts are the sizes of an OCI spec.
type counts struct{ nodes, mounts, hooks int }

func count(spec *oci.Spec) (c counts) {
	c.mounts = len(spec.Mounts)
	if spec.Linux != nil {
		c.nodes = len(spec.Linux.Devices)
	}
	if h := spec.Hooks; h != nil {
		c.hooks = len(h.CreateRuntime) + len(h.CreateContainer) + len(h.StartContainer) + len(h.Poststart) + len(h.Poststop)
	}
	return c
}
