package plan

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// conflict returns why two devices on one HCA cannot have the interfaces that their claims ask for, "" if they can.
func (d Device) conflict(other Device) string {
	if d.AdminAccess || other.AdminAccess {
		return ""
	}
	if d.VLAN != other.VLAN {
		return fmt.Sprintf("this claim has %s on it, and that one %s, and whoever may use an HCA may use all its addresses "+
			"(GIDs): use an HCA or VF that no claim of another VLAN has", vlanWords(d.VLAN), vlanWords(other.VLAN))
	}
	if a, b := d.Network.madeKind(), other.Network.madeKind(); a != "" && b != "" && a != b {
		return fmt.Sprintf("the kernel does not allow %s and %s on top of one interface: use network.mode %s, or another HCA",
			a, b, b)
	}
	return ""
}

// excludesShares reports whether a device excludes some other shares of its HCA: one of two such devices always has an
// interface that is not the usual one.
func (d Device) excludesShares() bool {
	return d.VLAN != 0 || d.Network.madeKind() == v1alpha1.NetworkIpvlan
}

func vlanWords(vlan int) string {
	if vlan == 0 {
		return "no VLAN"
	}
	return fmt.Sprintf("VLAN %d", vlan)
}

// vlan returns the VLAN of a device: that of the claim, the class or the node's configuration, in this order. It also
// holds for a claim without an interface, which can use the GIDs of the HCA all the same. For a group it is that of its
// HCAs, if they have the same.
func (w *words) vlan(d Device, node *Networks) int {
	set := w.defaults.Network
	set.Overlay(w.requested.Network)
	switch {
	case d.AdminAccess || node == nil:
		return 0
	case set.VLAN != nil:
		return *set.VLAN
	}
	hcas := d.HCAs()
	for _, hca := range hcas {
		if node.HCAs[hca].VLAN != node.HCAs[hcas[0]].VLAN {
			return 0
		}
	}
	return node.HCAs[hcas[0]].VLAN
}

// madeKind returns the kind of the interface that the driver makes, "" if it makes none.
func (n *Network) madeKind() string {
	if n == nil || n.Mode == v1alpha1.NetworkMove {
		return ""
	}
	return n.Mode
}

// agree returns an error if devices of one claim on one HCA cannot have their interfaces.
func (p *Plan) agree() error {
	for i, a := range p.Devices {
		for _, b := range p.Devices[:i] {
			hca, both := common(a.HCAs(), b.HCAs())
			if why := b.conflict(a); both && why != "" {
				return fmt.Errorf("requests %s and %s have HCA %s: %s", b.Request, a.Request, hca, why)
			}
		}
	}
	return nil
}
