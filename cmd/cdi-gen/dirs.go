package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// isLocal reports whether a root directory is the one of this system.
func isLocal(root string) bool {
	abs, err := filepath.Abs(root)
	return err == nil && abs == "/"
}

// userOf returns the user whose rootless runtimes count below a root directory: the one of this process, and none below
// another root.
func userOf(root string) runtimeconf.User {
	if !isLocal(root) {
		return runtimeconf.User{}
	}
	home, _ := os.UserHomeDir() // without one there are no files of a user
	return runtimeconf.User{UID: os.Geteuid(), Home: home, ConfigHome: os.Getenv("XDG_CONFIG_HOME"),
		RuntimeDir: os.Getenv("XDG_RUNTIME_DIR")}
}

// specDirs makes directories of --spec-dir absolute. A relative one is relative to the working directory, which is no
// place below another root.
func specDirs(root string, dirs []string) ([]string, error) {
	out := slices.Clone(dirs)
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) && !isLocal(root) {
			return nil, cli.Usagef("--spec-dir %q is relative: with --host-root, name a path on that host, such as %s", dir,
				cdi.StaticDir)
		}
		var err error
		if out[i], err = filepath.Abs(dir); err != nil {
			return nil, cli.Usagef("--spec-dir: %w", err)
		}
	}
	return out, nil
}

// dirFault says why runtimes do not read a directory of specs, by any configuration. It is nil for a good one.
func dirFault(dir runtimes.Dir) error {
	switch dir.State {
	case runtimes.DirLink:
		return invalidf("%q is a symbolic link: runtimes with a CDI library before %s do not follow it, and find no "+
			"device there; put a directory in its place", dir.Path, runtimes.FollowsLink)
	case runtimes.DirOther:
		return invalidf("%q is no directory: runtimes find no device there, and some read no other directory either",
			dir.Path)
	}
	return nil
}

// judgeDirs returns an error for directories that runtimes do not read, and warns of runtimes that are told to read
// others.
func judgeDirs(cmd *cobra.Command, root string, dirs []string) error {
	host := hostfs.DirFS(root)
	var errs []error
	for _, dir := range runtimeconf.Stat(host, dirs...) {
		errs = append(errs, dirFault(dir))
		if _, _, standard := standardDir(dir.Path); !standard || dir.State == runtimes.DirMissing {
			continue
		}
		for _, sentence := range runtimeconf.Elsewhere(host, userOf(root), dir.Path) {
			cmd.PrintErrln("warning:", sentence)
		}
	}
	return errors.Join(errs...)
}

// judgeDirsOf judges the directories of files, or directories, that a user names.
func judgeDirsOf(cmd *cobra.Command, args []string) error {
	var errs []error
	seen := map[string]bool{}
	for _, arg := range args {
		dir := filepath.Clean(arg)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		if root, standard, ok := standardDir(dir); ok && !seen[root+standard] {
			seen[root+standard] = true
			errs = append(errs, judgeDirs(cmd, root, []string{standard}))
		}
	}
	return errors.Join(errs...)
}

// checkOutput warns of runtimes that do not read the directory of --to, and rejects it for a --target that does
// not.
func (r *request) checkOutput(t *target, warn func(string)) error {
	root, dir, ok := standardDir(t.store.Dir)
	if !ok {
		if abs, err := filepath.Abs(t.store.Dir); err == nil {
			if sentence := runtimeconf.Unread(hostfs.DirFS("/"), userOf("/"), abs); sentence != "" {
				warn(sentence)
			}
		}
		return nil
	}
	host := hostfs.DirFS(root)
	states := runtimeconf.Stat(host, cdi.StaticDir, cdi.DynamicDir)
	for _, state := range states {
		if err := dirFault(state); err != nil && state.Path == dir {
			warn(err.Error())
		}
	}
	for _, sentence := range runtimeconf.Elsewhere(host, userOf(root), dir) {
		warn(sentence)
	}
	if r.target == nil {
		return nil
	}
	if err := r.target.CheckDir(dir, states); err != nil {
		return cli.Usagef("--target %s: --to %s: %w", r.target, t.store.Dir, err)
	}
	return nil
}

// standardDir reports whether a directory is one that runtimes read by default, on this host or below another root.
func standardDir(dir string) (root, standard string, ok bool) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", false
	}
	for _, standard := range []string{cdi.StaticDir, cdi.DynamicDir} {
		if root, ok := strings.CutSuffix(abs, standard); ok {
			return root + "/", standard, true
		}
	}
	return "", "", false
}
