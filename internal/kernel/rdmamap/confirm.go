package rdmamap

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Confirmer asks a Map which HCA is on a PCI function. The library shares no code with this project, so a bug in the
// project's reading of sysfs gives no claim a wrong card. A question costs as much as everything else that Prepare
// reads, and a bug would repeat its answer. So each set of names of an HCA is confirmed only once. rdma.Verify checks
// at each call that the names are still valid. It is safe for concurrent use.
type Confirmer struct {
	Ask func(function string) (ibdevs []string, err error) // [Map.DevicesForPCI]

	confirmed sync.Map // the names by HCA
}

// names are the values that rdma.Verify compares with sysfs.
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

// Confirm returns an error if rdmamap does not find an HCA on its function.
func (c *Confirmer) Confirm(h *rdma.HCA) error {
	if h.Identity.PCI == "" || h.Identity.SF != nil {
		return nil // the library has no answer
	}
	now := namesOf(h)
	if known, _ := c.confirmed.Load(h.Name); known == now {
		return nil
	}
	ibdevs, err := c.Ask(h.Identity.PCI)
	if err != nil {
		return err
	}
	if !slices.Contains(ibdevs, h.IBDev) {
		return fmt.Errorf("%w: function %s has %v, not %s", rdma.ErrChanged, h.Identity.PCI, ibdevs, h.IBDev)
	}
	c.confirmed.Store(h.Name, now)
	return nil
}
