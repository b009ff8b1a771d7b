package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
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
	f.StringSliceVar(&h.only, "device", nil, "only these devices: kernel name, PCI address or device name, with * and ? (repeatable)")
	f.StringSliceVar(&h.exclude, "exclude", nil, "all but these devices (repeatable)")
}

// discover reads the host below the root.
func (h *hostFlags) discover() (*rdma.Snapshot, error) {
	dir := filepath.Join(h.root, "sys")
	snap, err := rdma.Discover(sysfs.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("discover the RDMA devices below %q: %w", dir, err)
	}
	return snap, nil
}
