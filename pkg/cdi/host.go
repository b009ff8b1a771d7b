package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

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

// HostOptions say how the HCAs of a host go into its spec.
type HostOptions struct {
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

// Select returns the HCAs that the patterns choose: all, or those that a pattern
// of only matches, less those that a pattern of exclude matches. A pattern
// (path.Match) is for the ibdev name, the device name, or the PCI address, which
// does not stand for the subfunctions on it. A pattern of only that matches
// nothing is an error: who names a device wants it.
func Select(hcas []rdma.HCA, only, exclude []string) ([]rdma.HCA, error) {
	used := map[string]bool{}
	out := make([]rdma.HCA, 0, len(hcas))
	for i := range hcas {
		in, err := matchAny(&hcas[i], only, used)
		if err != nil {
			return nil, err
		}
		outside, err := matchAny(&hcas[i], exclude, used)
		if err != nil {
			return nil, err
		}
		if (in || len(only) == 0) && !outside {
			out = append(out, hcas[i])
		}
	}
	for _, p := range only {
		if !used[p] {
			return nil, fmt.Errorf("no device matches %q: have %s", p, listNames(hcas))
		}
	}
	return out, nil
}

// maxListed is how many names an error lists.
const maxListed = 16

func listNames(hcas []rdma.HCA) string {
	if len(hcas) == 0 {
		return "none"
	}
	names := make([]string, 0, maxListed)
	for _, h := range hcas[:min(len(hcas), maxListed)] {
		names = append(names, h.IBDev)
	}
	list := strings.Join(names, ", ")
	if more := len(hcas) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// matchAny reports whether a pattern matches one of the names of h, and notes
// which patterns did.
func matchAny(h *rdma.HCA, patterns []string, used map[string]bool) (bool, error) {
	names := []string{h.IBDev, h.Name}
	if h.Identity.PCI != "" && h.Identity.SF == nil {
		names = append(names, h.Identity.PCI)
	}
	matched := false
	for _, p := range patterns {
		for _, name := range names {
			ok, err := path.Match(p, name)
			if err != nil {
				return false, fmt.Errorf("match devices with %q: %w", p, err)
			}
			if ok {
				matched, used[p] = true, true
			}
		}
	}
	return matched, nil
}

// HostDevices makes the devices of a host's spec. It returns those it could make
// together with the reasons why it left others out; ErrNoDevices is among them
// when nothing is left. A management-only device beside a usable one is left out
// without a reason: it is no device for containers.
func HostDevices(snap *rdma.Snapshot, opt HostOptions) ([]Device, error) {
	var errs []error
	var devices []Device
	all := Device{Name: AllDevice, Hook: opt.Hook}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		if managementOnly(h, snap.HCAs) {
			continue
		}
		nodes, err := SelectNodes(h, snap.RDMACM, opt.Nodes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names, err := deviceNames(h, opt.Names)
		if err != nil {
			errs = append(errs, err)
		}
		for _, name := range names {
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

// managementOnly reports whether h is an SMI sub-device: it has no verbs and sits
// on the function of an HCA that has.
func managementOnly(h *rdma.HCA, hcas []rdma.HCA) bool {
	if h.Uverbs != nil || len(h.MADs) == 0 || h.Identity.PCI == "" {
		return false
	}
	return slices.ContainsFunc(hcas, func(other rdma.HCA) bool {
		return other.Uverbs != nil && other.Identity.PCI == h.Identity.PCI && other.Identity.SF == nil && h.Identity.SF == nil
	})
}

// deviceNames names an HCA by each strategy, without duplicates. An ibdev name is
// the user's choice and may be one that CDI does not know; then there is an error
// beside the other name.
func deviceNames(h *rdma.HCA, strategies []NameStrategy) ([]string, error) {
	var names []string
	var errs []error
	for _, s := range strategies {
		name := h.Name
		if s == NameIBDev {
			name = h.IBDev
		}
		if err := parser.ValidateDeviceName(name); err != nil {
			errs = append(errs, fmt.Errorf("HCA %s cannot be listed by its kernel name (rename it with rdma dev set, or use %s): %w", h.IBDev, h.Name, err))
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, errors.Join(errs...)
}
