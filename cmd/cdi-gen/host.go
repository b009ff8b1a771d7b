package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// hostFlags choose a host and devices of it.
type hostFlags struct {
	root    string
	only    []string
	exclude []string
}

func (h *hostFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.root, "host-root", "/", "directory that holds the host's sys and dev")
	f.StringSliceVar(&h.only, "device", nil, "only these devices: any of their names, or the PCI address, with * and ? (repeatable)")
	f.StringSliceVar(&h.exclude, "exclude", nil, "all but these devices (repeatable)")
}

// discover reads the host below the root, and keeps the chosen devices of it.
func (h *hostFlags) discover() (*rdma.Snapshot, error) {
	dir := filepath.Join(h.root, "sys")
	snap, err := rdma.Discover(sysfs.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("discover the RDMA devices below %q: %w", dir, err)
	}
	if len(snap.HCAs) == 0 || !h.filtered() {
		return snap, nil
	}
	return snap, h.filter(snap)
}

// filtered reports whether the flags leave out devices.
func (h *hostFlags) filtered() bool { return len(h.only)+len(h.exclude) > 0 }

// filter keeps the chosen HCAs of a snapshot, and the problems that concern them.
func (h *hostFlags) filter(snap *rdma.Snapshot) error {
	chosen, err := cdi.Select(snap.HCAs, h.only, h.exclude)
	if err != nil {
		return coded{exitUsage, err}
	}
	ours := map[string]bool{"": true}
	for _, hca := range chosen {
		ours[hca.IBDev] = true
	}
	snap.HCAs = chosen
	snap.Problems = slices.DeleteFunc(snap.Problems, func(p rdma.Problem) bool { return !ours[p.IBDev] })
	return nil
}
