package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// hostFlags are the flags that choose a host and its devices.
type hostFlags struct {
	root    string
	only    []string
	exclude []string
	// allowAbsent allows patterns that match no device.
	allowAbsent bool
}

func (h *hostFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.root, "host-root", "/", "`DIR` that holds the host's sys and dev")
	f.StringSliceVar(&h.only, "device", nil, "only the devices of this `PATTERN` of names (repeatable)")
	f.StringSliceVar(&h.exclude, "exclude", nil, "all but the devices of this `PATTERN` (repeatable)")
}

// ownDir returns an error if the spec of another root would go to a directory that the runtimes of this system read.
func (h *hostFlags) ownDir(out *outputFlags) error {
	if isLocal(h.root) {
		return nil
	}
	to, err := filepath.Abs(out.path)
	if err != nil {
		return err
	}
	for _, dir := range []string{to, filepath.Dir(to)} {
		if own := runtimeconf.RunDir(dir); own == cdi.StaticDir || own == runtimeconf.RunDir(cdi.DynamicDir) {
			return cli.Usagef("%s %s is of this system, and --host-root is %s: write to %s, or mount the host's %s there",
				out.flag, out.path, h.root, filepath.Join(h.root, out.path), dir)
		}
	}
	return nil
}

// files returns the files of the host. Symbolic links resolve as on the host.
func (h *hostFlags) files() fs.ReadLinkFS { return hostfs.DirFS(h.root) }

// below replaces the path on the host in an error by the path on this system.
func (h *hostFlags) below(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pe.Op, Path: filepath.Join(h.root, pe.Path), Err: pe.Err}
	}
	return err
}

// discover reads the host below the root. It returns the chosen devices and the number of other devices. It marks the
// nodes that /dev lacks: sysfs shows the kernel's devices in every container, whatever nodes the container was given.
// Where /dev is not below the root, or a node may not be looked at, the nodes count as there.
func (h *hostFlags) discover() (snap *rdma.Snapshot, others int, err error) {
	dir := filepath.Join(h.root, "sys")
	snap, err = rdma.Discover(sysfs.Below(h.root))
	if err != nil {
		return nil, 0, fmt.Errorf("discover the RDMA devices below %q: %w", dir, err)
	}
	if files := h.files(); hostfs.HasDev(files) {
		for _, n := range snap.Nodes() {
			_, err := hostfs.Lstat(files, n.Path())
			n.Missing = errors.Is(err, fs.ErrNotExist)
		}
	}
	all := len(snap.HCAs)
	if all == 0 || len(h.only)+len(h.exclude) == 0 {
		return snap, 0, nil
	}
	err = h.filter(snap)
	return snap, all - len(snap.HCAs), err
}

// filter keeps the chosen HCAs of a snapshot, and the problems that concern them.
func (h *hostFlags) filter(snap *rdma.Snapshot) (err error) {
	only, exclude := h.only, h.present(snap, h.exclude)
	if h.allowAbsent {
		only = h.present(snap, only)
	}
	var chosen []rdma.HCA
	if len(h.only) == 0 || len(only) > 0 { // to Select, no pattern means all
		if chosen, err = cdi.Select(snap.HCAs, only, exclude); err != nil {
			return coded(exitUsage, err)
		}
	}
	ours := map[string]bool{"": true}
	for _, hca := range chosen {
		ours[hca.IBDev] = true
	}
	snap.HCAs = chosen
	snap.Problems = slices.DeleteFunc(snap.Problems, func(p rdma.Problem) bool { return !ours[p.IBDev] })
	return nil
}

// present removes patterns that match no HCA, if that is allowed: with --allow-absent, and for the name of a device
// that could not be read.
func (h *hostFlags) present(snap *rdma.Snapshot, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool {
		_, err := cdi.Select(snap.HCAs, []string{pattern}, nil)
		return errors.Is(err, cdi.ErrNoMatch) && (h.allowAbsent || isUnreadable(snap, pattern))
	})
}

// isUnreadable reports whether a pattern matches a device that could not be read.
func isUnreadable(snap *rdma.Snapshot, pattern string) bool {
	return slices.ContainsFunc(snap.Problems, func(p rdma.Problem) bool {
		ok, err := path.Match(pattern, p.IBDev)
		return ok && err == nil && p.IBDev != ""
	})
}
