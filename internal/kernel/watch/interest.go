package watch

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Interest names the devices whose events cause a signal. Events about HCAs, their nodes, and new hardware always cause
// one.
type Interest struct {
	// Netdevs are the interfaces of ports, and the interfaces whose addresses are GIDs.
	Netdevs rdma.Names
	// Functions are the PCI functions with HCAs, and the PFs of VFs and SFs.
	Functions rdma.Names
	// HCAs reports whether the host has any HCA.
	HCAs bool
}

// InterestIn returns the interest for the devices of a snapshot.
func InterestIn(snap *rdma.Snapshot) Interest {
	i := Interest{HCAs: len(snap.HCAs) > 0}
	for n := range snap.HCAs {
		h := &snap.HCAs[n]
		i.Functions.Add(h.PF)
		if h.PCI != nil {
			i.Functions.Add(h.PCI.Address)
		}
		for _, p := range h.Ports {
			i.Netdevs.Add(p.Netdev)
		}
	}
	return i
}

// netdevs returns a change of the given interfaces if one of them matters. Callers pass both names of a renamed
// interface, and both are then in the change.
func (i *Interest) netdevs(names ...string) rdma.Changes {
	if slices.ContainsFunc(names, i.Netdevs.Has) {
		return rdma.Changes{Netdevs: rdma.NamesOf(names...)}
	}
	return rdma.Changes{}
}
