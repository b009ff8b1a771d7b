package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

const defaultHookPath = "/usr/bin/rdma-hook"

// lastReport is where the hook writes its result. doctor finds the path in the spec.
const lastReport = "/run/rdma.dev/last-container.json"

// findHook returns the path of the hook on the host.
func (r *request) findHook() (string, error) {
	candidates := []string{r.options.Hook.Path}
	if candidates[0] == "" {
		candidates = []string{defaultHookPath}
		if self, err := os.Executable(); err == nil && r.host.root == "/" {
			candidates = []string{filepath.Join(filepath.Dir(self), "rdma-hook"), defaultHookPath}
		}
	}
	var errs []error
	for _, path := range candidates {
		err := checkHook(r.host.files(), path)
		if err == nil {
			return path, nil
		}
		errs = append(errs, r.host.below(err))
	}
	return "", &cli.Coded{Code: exitHook, Err: fmt.Errorf("find the hook that raises the locked memory limit: %w; install "+
		"rdma-hook, name it with --hook-path, or do without it with --no-hook", errors.Join(errs...))}
}

// checkHook rejects a hook that a runtime cannot run. As root it also rejects a hook that a user can replace, because
// the runtime would run the user's program as root.
func checkHook(host fs.ReadLinkFS, path string) error {
	info, err := hostfs.Stat(host, path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return &fs.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}
	}
	if os.Geteuid() != 0 {
		return nil // the user's own rootless runtime runs the hook
	}
	return hostfs.CheckRootOnly(host, path)
}
