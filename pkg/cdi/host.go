package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NameStrategy is a way to name the HCAs of a host in a spec.
type NameStrategy string

// The name strategies. A device is listed once for each strategy in use.
const (
	// NameIBDev is the kernel's name, mlx5_0: what people type, but it follows
	// probe order.
	NameIBDev NameStrategy = "ibdev"
	// NamePCI is the slot, pci-0000-3b-00-0: it stays over reboots. It is written
	// this way because names that start with a digit need CDI 0.5.0.
	NamePCI NameStrategy = "pci"
)

// NameStrategies lists all strategies.
var NameStrategies = []NameStrategy{NameIBDev, NamePCI}

// AllDevice is the name of the device that stands for all HCAs of a spec.
const AllDevice = "all"

// HostOptions say which HCAs of a host go into its spec, and how.
type HostOptions struct {
	// Only and Exclude are patterns (path.Match) for ibdev names, PCI addresses
	// or device names. An HCA is in if Only is empty or one matches, and no
	// pattern of Exclude matches.
	Only, Exclude []string
	// Names are the strategies, at least one.
	Names []NameStrategy
	// Nodes are the node classes each device gives.
	Nodes []NodeClass
	// NoAll leaves out the device named all.
	NoAll bool
	// Hook is given to every device, nil for none.
	Hook *Hook
}

// ErrNoDevices means that a host has no HCA that a container can be given.
var ErrNoDevices = errors.New("no RDMA device that a container can be given")

// Select returns the HCAs that the patterns choose. A pattern of Only that
// matches nothing is an error: who names a device wants it.
func Select(hcas []*rdma.HCA, only, exclude []string) ([]*rdma.HCA, error) {
	used := map[string]bool{}
	var out []*rdma.HCA
	for _, h := range hcas {
		in, err := matchAny(h, only, used)
		if err != nil {
			return nil, err
		}
		outside, err := matchAny(h, exclude, used)
		if err != nil {
			return nil, err
		}
		if (in || len(only) == 0) && !outside {
			out = append(out, h)
		}
	}
	for _, p := range only {
		if !used[p] {
			return nil, fmt.Errorf("no device matches %q: have %s", p, strings.Join(ibdevs(hcas), ", "))
		}
	}
	return out, nil
}

func ibdevs(hcas []*rdma.HCA) []string {
	names := make([]string, len(hcas))
	for i, h := range hcas {
		names[i] = h.IBDev
	}
	return names
}

// matchAny reports whether a pattern matches one of the names of h, and notes
// which patterns did.
func matchAny(h *rdma.HCA, patterns []string, used map[string]bool) (bool, error) {
	matched := false
	for _, p := range patterns {
		for _, name := range []string{h.IBDev, h.Name, h.Identity.PCI} {
			ok, err := path.Match(p, name)
			if err != nil {
				return false, fmt.Errorf("match devices with %q: %w", p, err)
			}
			if ok && name != "" {
				matched, used[p] = true, true
			}
		}
	}
	return matched, nil
}

// HostDevices makes the devices of a host's spec. It returns those it could make
// together with the reasons why it left others out; ErrNoDevices is among them
// when nothing is left.
func HostDevices(snap *rdma.Snapshot, opt HostOptions) ([]Device, error) {
	var errs []error
	for i := range snap.HCAs {
		if err := snap.HCAs[i].Unusable(); err != nil {
			errs = append(errs, err)
		}
	}
	usable := snap.Usable()
	if len(usable) == 0 {
		return nil, errors.Join(append(errs, ErrNoDevices)...)
	}
	hcas, err := Select(usable, opt.Only, opt.Exclude)
	if err != nil {
		return nil, err
	}
	var devices []Device
	all := Device{Name: AllDevice, Hook: opt.Hook}
	for _, h := range hcas {
		nodes, err := SelectNodes(h, snap.RDMACM, opt.Nodes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range deviceNames(h, opt.Names) {
			devices = append(devices, Device{Name: name, Nodes: nodes, Hook: opt.Hook})
		}
		all.Nodes = append(all.Nodes, nodes...)
	}
	if len(devices) == 0 {
		return nil, errors.Join(append(errs, ErrNoDevices)...)
	}
	taken := slices.ContainsFunc(devices, func(d Device) bool { return d.Name == AllDevice })
	if !opt.NoAll && !taken {
		devices = append(devices, all)
	}
	return devices, errors.Join(errs...)
}

// deviceNames names an HCA by each strategy, without duplicates.
func deviceNames(h *rdma.HCA, strategies []NameStrategy) []string {
	var names []string
	for _, s := range strategies {
		name := h.Name
		if s == NameIBDev {
			name = h.IBDev
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
