package node

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Software returns a function that asks the kernel about a software HCA, for [rdma.Scanner]. It returns nil without an
// answer.
func Software(kernel Genl) func(ibdev string) *rdma.Software {
	return func(ibdev string) *rdma.Software {
		if kernel == nil {
			return nil
		}
		s, err := kernel.Software(ibdev)
		if err != nil {
			return nil
		}
		return s
	}
}

// software is [Software] for a driver: an interface that it may have moved into a pod counts as the host's. Several
// goroutines call it.
func (n *Node) software(ibdev string) *rdma.Software {
	s := Software(n.cfg.Genl)(ibdev)
	if s != nil && s.Netdev == "" {
		s.Netdev = movedFrom(n.Host(), n.cfg.Store, s.Index)
	}
	return s
}

// movedFrom returns the interface that the host had below an RDMA device, if a prepared claim moves the device's
// interface into its pod. The kernel's number of the device shows that it is the same one.
func movedFrom(host *Host, store *claimstore.Store, index uint32) string {
	for name, hca := range host.seen {
		if hca.Software == nil || hca.Software.Index != index || hca.Software.Netdev == "" {
			continue
		}
		plans, _ := store.List() // View reports unreadable records
		if slices.ContainsFunc(plans, func(p *plan.Plan) bool { return moves(p, name) }) {
			return hca.Software.Netdev
		}
	}
	return ""
}

// moves reports whether a claim gets the interface of an HCA itself.
func moves(p *plan.Plan, hca string) bool {
	return slices.ContainsFunc(p.Devices, func(d plan.Device) bool {
		return d.Network != nil && d.Network.Mode == v1alpha1.NetworkMove && slices.Contains(d.HCAs(), hca)
	})
}
