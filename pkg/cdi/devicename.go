package cdi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// namer names the HCAs of one host.
type namer struct {
	strategies []NameStrategy
	// owners counts the HCAs with each name.
	owners map[string]int
}

func newNamer(snap *rdma.Snapshot, opt *HostOptions) *namer {
	n := &namer{strategies: opt.Names, owners: map[string]int{}}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		if managementOnly(h, snap.HCAs) {
			continue // its GUID and interface are those of another HCA
		}
		for _, name := range namesOf(h, opt.Names) {
			n.owners[name]++
			for _, v := range opt.variants(h, nil) {
				n.owners[name+v.Name]++
			}
		}
	}
	return n
}

// namesOf returns the names that strategies give an HCA, without duplicates. An HCA has no name by
// a node GUID or interface that it lacks.
func namesOf(h *rdma.HCA, strategies []NameStrategy) []string {
	var names []string
	for _, s := range strategies {
		name := ""
		switch s {
		case NameIBDev:
			name = h.IBDev
		case NamePCI:
			name = h.Name
		case NameGUID:
			if h.NodeGUID != 0 {
				name = fmt.Sprintf("guid-%016x", uint64(h.NodeGUID))
			}
		case NameNetdev:
			if p := h.Port1(); p != nil && p.Netdev != "" {
				name = "net-" + p.Netdev
			}
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// namesOf returns the names of an HCA. It returns an error for each name that is not valid in the spec, and
// for an HCA without a name.
func (n *namer) namesOf(h *rdma.HCA) ([]string, error) {
	all := namesOf(h, n.strategies)
	if len(all) == 0 {
		return nil, fmt.Errorf("HCA %s cannot be listed: it has no %s; --names pci always gives a name",
			h.IBDev, strings.Join(n.lacking(), " and no "))
	}
	var names []string
	var errs []error
	for _, name := range all {
		if err := n.check(h, name, ""); err != nil {
			errs = append(errs, err)
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(errs...)
}

// lacking returns what an HCA without a name lacks.
func (n *namer) lacking() []string {
	var out []string
	for _, s := range n.strategies {
		switch s {
		case NameGUID:
			out = append(out, "node GUID for --names guid")
		case NameNetdev:
			out = append(out, "network interface for --names netdev")
		}
	}
	return out
}

// check rejects a name that is invalid in CDI, such as some ibdev or interface names. It also rejects
// a name of two devices, such as a duplicate node GUID: a container must not get the wrong one.
func (n *namer) check(h *rdma.HCA, name, suffix string) error {
	err := parser.ValidateDeviceName(name + suffix)
	if err == nil && n.owners[name+suffix] > 1 {
		err = errors.New("another device would have the same name")
	}
	if err == nil && len(name+suffix) == 1 {
		err = errors.New("CDI libraries before 0.5.0 panic on a name of one letter")
	}
	if err != nil {
		return fmt.Errorf("HCA %s cannot be listed as %s (use %s): %w", h.IBDev, name+suffix, h.Name+suffix, err)
	}
	return nil
}
