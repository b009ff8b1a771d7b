package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Confirm checks that the names that the HCAs of a plan have in a Host are still valid. It reads the kernel's present
// state, so that an outdated Host gives no claim a wrong card.
func (n *Node) Confirm(host *Host, p *plan.Plan) error {
	for _, d := range p.Devices {
		for _, name := range d.HCAs() {
			if err := n.verifier.verify(host, host.Lookup(name), d.Settings.Nodes); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), name, err)
			}
		}
	}
	return nil
}

// verifier compares HCAs with the present state of the kernel.
type verifier struct {
	root   string // of the host
	sys    fs.ReadLinkFS
	second *rdmamap.Confirmer

	software func(ibdev string) *rdma.Software
}

// verify checks that the kernel's names of an HCA still lead to its slot, and that its nodes in /dev match sysfs. The
// driver reads the kernel at each call. rdmamap has confirmed the same names once.
func (v *verifier) verify(host *Host, hca *rdma.HCA, classes []rdma.NodeClass) error {
	if host.InPod(hca.Name) { // the host sees only the nodes of the HCA
		now := rdma.Elsewhere(v.sys, []rdma.HCA{*hca})
		if len(now) == 0 || *now[0].Uverbs != *hca.Uverbs {
			return fmt.Errorf("%w: HCA %s has been moved again", rdma.ErrChanged, hca.IBDev)
		}
		return v.checkNodes(host, hca, classes)
	}
	if err := rdma.Verify(v.sys, hca); err != nil {
		return err
	}
	if was := hca.Software; was != nil {
		if now := v.software(hca.IBDev); now == nil || *now != *was {
			return fmt.Errorf("%w: the interface of HCA %s has changed, or RDMA netlink does not name it", rdma.ErrChanged, hca.IBDev)
		}
	}
	if err := v.second.Confirm(hca); err != nil {
		return err
	}
	return v.checkNodes(host, hca, classes)
}

func (v *verifier) checkNodes(host *Host, hca *rdma.HCA, classes []rdma.NodeClass) error {
	nodes, err := cdi.SelectNodes(hca, host.RDMACM, classes)
	for _, node := range nodes {
		err = errors.Join(err, v.checkNode(node))
	}
	return err
}

// checkNode checks a device node on the host. For a missing node, the runtime's own error would say less.
func (v *verifier) checkNode(node rdma.Node) error {
	path := filepath.Join(v.root, node.Path())
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at node %s of the host: %w; is /dev a devtmpfs, and mounted into the driver's pod?",
			node.Path(), err)
	}
	major, minor := unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || major != node.Major || minor != node.Minor {
		return fmt.Errorf("node %s of the host is not character device %d:%d, which the kernel has under this name: "+
			"remove it and let udev make it anew", node.Path(), node.Major, node.Minor)
	}
	return nil
}
