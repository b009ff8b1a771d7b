package pods

import (
	"errors"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	errManyNetdevs = errors.New("it has several ports with a network interface each, " +
		"and the driver does not choose one: attach them by a CNI plugin")
	errNoEthernet = errors.New("only interfaces of RoCE and iWARP HCAs are attached: " +
		"InfiniBand and EFA need none, and CNI plugins make IPoIB interfaces")
)

// NetdevOf returns the network interface of an HCA that a pod can get.
func NetdevOf(h *rdma.HCA) (string, error) {
	if h.Protocol != rdma.ProtocolRoCE && h.Protocol != rdma.ProtocolIWARP {
		return "", errNoEthernet
	}
	var netdev string
	for p := range h.OwnPorts() {
		switch {
		case p.Netdev == "":
		case netdev != "":
			return "", errManyNetdevs
		default:
			netdev = p.Netdev
		}
	}
	if netdev == "" {
		return "", attach.ErrAway
	}
	return netdev, nil
}

// UsableInterface returns the interface of an HCA that claims of a mode can have on this host. on is the parent of the
// pod's interface; for a bond or VLAN it differs from netdev. If there is none, the error is the reason.
func UsableInterface(host *podnet.Host, h *rdma.HCA, mode string, vlan int) (netdev, on string, err error) {
	if netdev, err = NetdevOf(h); err == nil {
		on, err = host.Usable(netdev, functionOf(h), mode, vlan)
	}
	if err == nil {
		err = withoutVFs(h, mode)
	}
	return netdev, on, err
}

// withoutVFs returns an error for an HCA with virtual functions: its interface would take their settings into a pod. If
// the driver of the interface supports it, the kernel reports the same.
func withoutVFs(h *rdma.HCA, mode string) error {
	if mode != podnet.Move || h.PCI == nil || h.PCI.NumVFs == nil || *h.PCI.NumVFs == 0 {
		return nil
	}
	return podnet.HasVFs(*h.PCI.NumVFs)
}

// functionOf returns the PCI function of the interface of an HCA, "" if the kernel names another device.
func functionOf(h *rdma.HCA) string {
	if h.Identity.SF != nil {
		return "" // the kernel names the auxiliary device of an SF
	}
	return h.Identity.PCI
}

// interfaceOf returns the interface that a pod gets with a device of a plan. The interface has no name on the host
// while a pod has it.
func interfaceOf(p *plan.Plan, dev plan.Device, h *rdma.HCA) (attach.Interface, error) {
	i := attach.Interface{Claim: p, Device: dev, PCI: functionOf(h)}
	var err error
	i.Netdev, err = NetdevOf(h)
	return i, err
}
