package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// hostFlags choose a host and devices of it.
type hostFlags struct {
	root    string
	only    []string
	exclude []string
	// allowAbsent: devices come and go, so a pattern of only may stand for none.
	allowAbsent bool
}

func (h *hostFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.root, "host-root", "/", "`DIR` that holds the host's sys and dev")
	f.StringSliceVar(&h.only, "device", nil, "only these devices: `PATTERN` of any of their names, or of the PCI address, with * and ? (repeatable)")
	f.StringSliceVar(&h.exclude, "exclude", nil, "all but the devices of this `PATTERN` (repeatable)")
}

// files are those of the host: links below the root lead where they lead there.
func (h *hostFlags) files() fs.ReadLinkFS { return hostfs.DirFS(h.root) }

// below makes an error about a file of the host say its path on this system.
func (h *hostFlags) below(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pe.Op, Path: filepath.Join(h.root, pe.Path), Err: pe.Err}
	}
	return err
}

// discover reads the host below the root, and keeps the chosen devices of it. It
// returns how many others there are.
func (h *hostFlags) discover() (snap *rdma.Snapshot, others int, err error) {
	dir := filepath.Join(h.root, "sys")
	snap, err = rdma.Discover(sysfs.DirFS(dir))
	if err != nil {
		return nil, 0, fmt.Errorf("discover the RDMA devices below %q: %w", dir, err)
	}
	all := len(snap.HCAs)
	if all == 0 || len(h.only)+len(h.exclude) == 0 {
		return snap, 0, nil
	}
	err = h.filter(snap)
	return snap, all - len(snap.HCAs), err
}

// filter keeps the chosen HCAs of a snapshot, and the problems that concern them.
func (h *hostFlags) filter(snap *rdma.Snapshot) error {
	chosen, err := h.choose(snap.HCAs)
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

func (h *hostFlags) choose(hcas []rdma.HCA) ([]rdma.HCA, error) {
	if !h.allowAbsent {
		return cdi.Select(hcas, h.only, h.exclude)
	}
	var present []string
	for _, pattern := range h.only {
		_, err := cdi.Select(hcas, []string{pattern}, nil)
		if err == nil {
			present = append(present, pattern)
		} else if !errors.Is(err, cdi.ErrNoMatch) {
			return nil, err
		}
	}
	if len(h.only) > 0 && len(present) == 0 { // to Select, no pattern means all
		return nil, nil
	}
	return cdi.Select(hcas, present, h.exclude)
}
