package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/install"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// hookFlags are the flags for the hook.
type hookFlags struct {
	source    string
	dir       string
	onDenied  string
	reportDir string
}

func (h *hookFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.source, "hook-source", "", "the hook `PROGRAM` to install on the host (default rdma-hook beside this "+
		"program)")
	f.StringVar(&h.dir, "hook-dir", "/opt/rdma.dev/bin", "`DIRECTORY` of the host for the hook, at the same path in the "+
		"driver's pod, on a file system without noexec; empty for no hook")
	f.StringVar(&h.reportDir, "hook-report-dir", "", "`DIRECTORY` of the host, on a tmpfs and at the same path in the "+
		"driver's pod, where the hook writes what it did; the driver logs these files and removes them")
	f.StringVar(&h.onDenied, "on-denied", string(args.Clamp), args.OnDeniedUsage)
}

func (h *hookFlags) validate() error {
	if _, err := args.ParseOnDenied(h.onDenied); err != nil {
		return cli.Usagef("--on-denied: %w", err)
	}
	return nil
}

// install installs the hook of this version on the host. It is idempotent. It must not remove other versions: prepared
// claims still use them, and so does the driver that this one replaces.
func (h *hookFlags) install(ctx context.Context) (plan.HookOptions, error) {
	if h.dir == "" {
		klog.FromContext(ctx).Info("No hook: containers keep the locked memory limit of the container runtime")
		return plan.HookOptions{}, nil
	}
	if h.source == "" {
		self, err := os.Executable()
		if err != nil {
			return plan.HookOptions{}, fmt.Errorf("find the hook to install: %w", err)
		}
		h.source = filepath.Join(filepath.Dir(self), "rdma-hook")
	}
	path, err := install.Install(h.source, h.dir, version.Get())
	if err != nil {
		return plan.HookOptions{}, err
	}
	klog.FromContext(ctx).Info("Hook installed", "path", path)
	return plan.HookOptions{Path: path, OnDenied: h.onDenied, ReportDir: h.reportDir}, nil
}

// pruneAfter is the delay before hooks of earlier versions are removed. By then a rolling update has ended, and the
// previous driver writes no more specs.
const pruneAfter = 10 * time.Minute

// pruneLater waits for pruneAfter, and then removes the hooks of earlier versions that no spec names. It returns early
// if ctx ends.
func (h *hookFlags) pruneLater(ctx context.Context, current, cdiDir string) {
	if !loop.Sleep(ctx, pruneAfter) {
		return
	}
	removed, err := prune(h.dir, current, cdiDir)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some hooks of earlier versions stay")
	}
	if len(removed) > 0 {
		klog.FromContext(ctx).Info("Hooks of earlier versions removed", "paths", removed)
	}
}

func prune(dir, current, cdiDir string) ([]string, error) {
	var errs []error
	removed, err := install.Prune(dir, func(candidate string) bool {
		if candidate == current {
			return true
		}
		named, err := isNamed(cdiDir, candidate)
		errs = append(errs, err)
		return named || err != nil
	})
	return removed, errors.Join(append(errs, err)...)
}

// errNamed ends the search for a spec.
var errNamed = errors.New("a spec names the hook")

// isNamed reports whether a CDI spec of a directory names a hook, whoever wrote the spec. It has one spec in memory at a
// time. A file that is larger than any spec may name the hook, so it is an error.
func isNamed(dir, hookPath string) (bool, error) {
	err := hostfs.EachLocal(dir, func(e fs.DirEntry) error {
		if ext := filepath.Ext(e.Name()); ext != ".json" && ext != ".yaml" {
			return nil
		}
		data, err := hostfs.ReadLocal(filepath.Join(dir, e.Name()), int64(yamlread.Spec.Size))
		switch {
		case errors.Is(err, hostfs.ErrNotRegular), errors.Is(err, fs.ErrNotExist):
			return nil // runtimes ignore it too
		case err == nil && bytes.Contains(data, []byte(hookPath)):
			return errNamed
		}
		return err
	})
	if errors.Is(err, errNamed) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a CDI spec that names %q: %w", hookPath, err)
	}
	return false, nil
}
