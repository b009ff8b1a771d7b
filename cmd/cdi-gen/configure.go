package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/configure"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// configureFlags are the flags of configure.
type configureFlags struct {
	root    string
	version string
	undo    bool
	dryRun  bool
}

var configurable = []string{runtimes.Docker, runtimes.Containerd, runtimes.CRIO, runtimes.Podman}

func newConfigure() *cobra.Command {
	var c configureFlags
	cmd := &cobra.Command{
		Use:   "configure docker|containerd|crio|podman",
		Short: "Make a container runtime of this host read CDI specs, or take that back",
		Long: `Make a container runtime of this host read CDI specs. configure prints the change as a
diff, and restarts nothing. A file that it edits has a backup beside it, with the
ending .cdi-gen-backup. A runtime without CDI is refused.`,
		Example: `  cdi-gen configure docker --dry-run
  sudo cdi-gen configure docker
  sudo cdi-gen configure docker --undo`,
		ValidArgs: configurable,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(configurable, args[0]) {
				return cli.Usagef("name one runtime: docker, containerd, crio or podman")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.run(cmd, args[0])
			if errors.Is(err, configure.ErrRefused) {
				return coded(exitRefused, fmt.Errorf("%s: %w", args[0], err))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.root, "host-root", "/", "`DIR` that holds the host's etc")
	f.StringVar(&c.version, "runtime-version", "", "`VERSION` of the runtime, such as 28.0 (default what it says itself)")
	f.BoolVar(&c.undo, "undo", false, "take the change back")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the change and write nothing")
	return cmd
}

func (c *configureFlags) run(cmd *cobra.Command, runtime string) error {
	if c.undo {
		return c.goBack(cmd, runtime)
	}
	target, err := c.target(cmd.Context(), runtime)
	if err != nil {
		return err
	}
	plan, err := configure.New(c.root, target, userOf(c.root))
	if err != nil {
		return err
	}
	for _, note := range plan.Notes {
		cmd.PrintErrln(note)
	}
	if err := writeDiff(cmd.OutOrStdout(), plan.Path, plan.Path, plan.Old, plan.New); err != nil {
		return err
	}
	if c.dryRun || plan.Path == "" {
		c.next(cmd, "", plan.Dirs)
		return nil
	}
	if err := c.rootOnly(runtime, plan.Path, plan.Apply()); err != nil {
		return fmt.Errorf("configure %s: %w", runtime, err)
	}
	cmd.PrintErrf("%s written\n", plan.Path)
	if backup := plan.Backup(); backup != "" {
		cmd.PrintErrf("%s has the old content\n", backup)
	}
	c.next(cmd, plan.Restart, plan.Dirs)
	return nil
}

// rootOnly says what a user other than root can do about an error of permission.
func (c *configureFlags) rootOnly(runtime, file string, err error) error {
	if err == nil || !errors.Is(err, fs.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	rootless := ""
	if runtime == runtimes.Docker {
		rootless = "; a rootless dockerd has its own file, ~/.config/docker/daemon.json"
	}
	return coded(exitRefused,
		fmt.Errorf("%w; only root can change %s: run the same command with sudo%s", err, file, rootless))
}

// next prints the commands that are left to the user. dirs are the directories that the runtime reads.
func (c *configureFlags) next(cmd *cobra.Command, restart string, dirs []string) {
	if restart != "" {
		cmd.PrintErrf("next: %s\n", restart)
	}
	if len(dirs) == 0 {
		dirs = []string{cdi.StaticDir, cdi.DynamicDir}
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(c.root, dir, cdi.SpecName(cdi.KindHCA, "")+".*"))
		if err == nil && len(files) > 0 {
			return
		}
	}
	dir := dirs[0]
	if slices.Contains(dirs, cdi.StaticDir) {
		dir = cdi.StaticDir
	}
	cmd.PrintErrf("next: cdi-gen generate --to %s\n", text.Shell(dir))
}

func (c *configureFlags) goBack(cmd *cobra.Command, runtime string) error {
	undo, err := configure.NewUndo(c.root, runtime)
	if err != nil {
		return err
	}
	if undo.Path == "" {
		cmd.PrintErrf("nothing to undo: cdi-gen has not configured %s\n", runtime)
		return nil
	}
	if err := writeDiff(cmd.OutOrStdout(), undo.Path, undo.Path, undo.Old, undo.New); err != nil || c.dryRun {
		return err
	}
	if err := c.rootOnly(runtime, undo.Path, undo.Apply()); err != nil {
		return fmt.Errorf("undo the configuration of %s: %w", runtime, err)
	}
	cmd.PrintErrf("%s is as before\nnext: %s\n", undo.Path, undo.Restart)
	return nil
}

// writeDiff writes the difference between two texts to standard output.
func writeDiff(w io.Writer, oldName, newName string, before, after []byte) error {
	if _, err := io.WriteString(w, udiff.Unified(oldName, newName, string(before), string(after))); err != nil {
		return fmt.Errorf("write difference to standard output: %w", err)
	}
	return nil
}

// target returns the release of a runtime: that of the flag, or what the runtime says itself.
func (c *configureFlags) target(ctx context.Context, runtime string) (runtimes.Target, error) {
	if c.version != "" {
		target, err := runtimes.Lookup(runtime + "-" + c.version)
		if err != nil {
			return target, cli.Usagef("--runtime-version: %w", err)
		}
		return target, nil
	}
	return localTarget(ctx, c.root, runtime, "name it with --runtime-version")
}

// localTarget asks the program of a runtime for its release. advice is what to do if it does not answer.
func localTarget(ctx context.Context, root, runtime, advice string) (runtimes.Target, error) {
	if !isLocal(root) {
		return runtimes.Target{}, cli.Usagef("the version of %s below --host-root is not known: %s", runtime, advice)
	}
	ctx, cancel := context.WithTimeout(ctx, runtimes.VersionTimeout)
	defer cancel()
	program := runtimes.Program(runtime)
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return runtimes.Target{}, fmt.Errorf("find the version of %s: run %s --version: %w; is it installed? if so, %s",
			runtime, program, err, advice)
	}
	target, err := runtimes.Detect(runtime, string(out))
	if err != nil {
		return target, cli.Usagef("%s says %q: %w; %s", program, strings.TrimSpace(string(out)), err, advice)
	}
	return target, nil
}
