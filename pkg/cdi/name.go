package cdi

import (
	"errors"
	"fmt"
	"slices"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// namer names the HCAs of one host.
type namer struct {
	strategies []NameStrategy
	// owners counts the HCAs that a name would stand for.
	owners map[string]int
}

func newNamer(snap *rdma.Snapshot, strategies []NameStrategy) *namer {
	n := &namer{strategies: strategies, owners: map[string]int{}}
	for i := range snap.HCAs {
		if h := &snap.HCAs[i]; !managementOnly(h, snap.HCAs) { // which has the GUID and the interface of another
			for _, name := range namesOf(h, strategies) {
				n.owners[name]++
			}
		}
	}
	return n
}

// namesOf returns the names that strategies give an HCA, each once. A node GUID or an
// interface that it does not have gives none.
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

// of names an HCA. A name that CDI does not know, as an ibdev or interface name may
// be, or that stands for two HCAs, as a node GUID may, is left out with a reason.
func (n *namer) of(h *rdma.HCA) ([]string, error) {
	var names []string
	var errs []error
	for _, name := range namesOf(h, n.strategies) {
		err := parser.ValidateDeviceName(name)
		if err == nil && n.owners[name] > 1 {
			err = errors.New("another device would have the same name")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("HCA %s cannot be listed as %s (use %s): %w", h.IBDev, name, h.Name, err))
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(errs...)
}
