package node

import (
	"context"
	"maps"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// recallVPD returns the VPD that an earlier driver of this boot has read. Without it the cards are asked again.
func recallVPD(m claimstore.Memory) (vpd map[string]rdma.VPD) {
	if _, err := m.Recall(memoryVPD, &vpd); err != nil {
		klog.Background().Error(err, "The VPD of the host's cards is read again")
	}
	return vpd
}

// readVPD reads the VPD of functions that are new. It may take [rdma.VPDTime], and holds no lock meanwhile: a claim
// that is prepared never waits for it. Until then nobody gets the HCAs of these functions. read tells whether there
// were any, and the host has been read with them.
func (n *Node) readVPD(ctx context.Context) (read bool, err error) {
	n.Moves.scan.Lock()
	files := n.scanner.UnreadVPD()
	n.Moves.scan.Unlock()
	if len(files) == 0 {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, rdma.VPDTime)
	defer cancel()
	vpd := rdma.ReadVPD(limited, n.sys, files)
	if ctx.Err() != nil {
		return false, nil // the driver ends, which says nothing about a card
	}
	var all map[string]rdma.VPD
	err = n.read(func(s *rdma.Scanner) (*rdma.Snapshot, error) {
		snap := s.Learn(vpd)
		all = s.VPD()
		return snap, nil
	})
	maps.DeleteFunc(all, func(_ string, v rdma.VPD) bool { return v.Denied }) // the next driver may be allowed to
	if err := n.cfg.Store.Memory().Remember(memoryVPD, all); err != nil {
		klog.FromContext(ctx).Error(err, "After a restart the driver reads the VPD of the host's cards again")
	}
	return true, err
}
