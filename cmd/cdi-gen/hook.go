package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

const defaultHookPath = "/usr/bin/rdma-hook"

// lastReport is where the hook writes its result. doctor finds the path in the spec.
const lastReport = "/run/rdma.dev/last-container.json"

// hook returns the hook for the spec, without its path, nil with --no-hook.
func (r *recipeFlags) hook() (*cdi.Hook, error) {
	options := args.Options{LastReport: lastReport}
	var err error
	if options.Memlock, err = args.ParseSize(r.memlock); err != nil {
		return nil, usagef("--memlock: %w", err)
	}
	if r.noHook {
		return nil, nil
	}
	if policy := args.OnDenied(r.onDenied); policy != args.Clamp { // the hook's default
		options.OnDenied = policy
	}
	if r.onUnusable != string(args.Warn) {
		options.OnUnusable = args.OnUnusable(r.onUnusable)
	}
	return &cdi.Hook{Options: options}, nil
}

// limits returns the limits of a container on each HCA.
func (r *recipeFlags) limits() (args.Wanted, error) {
	if r.limit == "" {
		return args.Wanted{}, nil
	}
	want, err := args.ParseWanted(r.limit)
	if err != nil {
		return args.Wanted{}, usagef("--limit: %w", err)
	}
	return want, nil
}

// findHook returns the path of the hook on the host.
func (r *recipe) findHook(ctx context.Context) (string, error) {
	candidates := []string{r.hookPath}
	if r.hookPath == "" {
		candidates = []string{defaultHookPath}
		if self, err := os.Executable(); err == nil && r.host.root == "/" {
			candidates = []string{filepath.Join(filepath.Dir(self), "rdma-hook"), defaultHookPath}
		}
	}
	var errs []error
	for _, path := range candidates {
		if !filepath.IsAbs(path) {
			return "", usagef("--hook-path %q: want an absolute path on the host", path)
		}
		err := checkHook(r.host.files(), path)
		if err == nil {
			return path, nil
		}
		errs = append(errs, r.host.below(err))
	}
	return "", coded{exitHook, fmt.Errorf("find the hook that raises the locked memory limit: %w; install rdma-hook, "+
		"name it with --hook-path, or do without it with --no-hook", errors.Join(errs...))}
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
