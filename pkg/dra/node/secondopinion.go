package node

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// secondOpinion asks rdmamap which HCA sits on a PCI function: code that shares nothing with
// ours, so that a mistake of ours in reading sysfs gives nobody another card. It costs as much
// as all else that Prepare reads, and a mistake would be the same the next time, so it is asked
// once about what an HCA is called. That the kernel still calls it so rdma.Verify reads each time.
type secondOpinion struct {
	ask func(function string) (ibdevs []string, err error)

	mu        sync.Mutex
	confirmed map[string]names // by HCA
}

// names are what rdma.Verify compares with sysfs.
type names struct {
	pci, ibdev string
	guid       rdma.GUID
	uverbs     rdma.Node
}

func namesOf(h *rdma.HCA) names {
	n := names{pci: h.Identity.PCI, ibdev: h.IBDev, guid: h.NodeGUID}
	if h.Uverbs != nil {
		n.uverbs = *h.Uverbs
	}
	return n
}

// confirm returns an error if rdmamap does not find an HCA on its function.
func (s *secondOpinion) confirm(h *rdma.HCA) error {
	if h.Identity.PCI == "" || h.Identity.SF != nil {
		return nil // it has no answer
	}
	now := namesOf(h)
	s.mu.Lock()
	known := s.confirmed[h.Name] == now
	s.mu.Unlock()
	if known {
		return nil
	}
	ibdevs, err := s.ask(h.Identity.PCI)
	if err != nil {
		return err
	}
	if !slices.Contains(ibdevs, h.IBDev) {
		return fmt.Errorf("%w: function %s has %v, not %s", rdma.ErrChanged, h.Identity.PCI, ibdevs, h.IBDev)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirmed == nil {
		s.confirmed = map[string]names{}
	}
	s.confirmed[h.Name] = now
	return nil
}
