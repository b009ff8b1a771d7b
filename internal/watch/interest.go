package watch

import "github.com/rdma-dev/dra-driver-rdma/pkg/rdma"

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

// covers reports whether the changed HCAs of a snapshot need no other interest. HCAs that appeared or disappeared need
// another one.
func (i *Interest) covers(snap *rdma.Snapshot, names []string) bool {
	for _, name := range names {
		h := snap.Lookup(name)
		if h == nil || h.PF != "" && !i.Functions.Has(h.PF) || h.PCI != nil && !i.Functions.Has(h.PCI.Address) {
			return false
		}
		for _, p := range h.Ports {
			if p.Netdev != "" && !i.Netdevs.Has(p.Netdev) {
				return false
			}
		}
	}
	return i.HCAs == (len(snap.HCAs) > 0)
}

// netdevs returns a change of the given interfaces if one of them matters. Callers pass both names of a renamed
// interface, and both are then in the change.
func (i *Interest) netdevs(names ...string) rdma.Changes {
	for _, name := range names {
		if i.Netdevs.Has(name) {
			return rdma.Changes{Netdevs: rdma.NamesOf(names...)}
		}
	}
	return rdma.Changes{}
}
