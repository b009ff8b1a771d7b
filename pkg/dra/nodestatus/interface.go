package nodestatus

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var modes = []string{v1alpha1.NetworkMacvlan, v1alpha1.NetworkIpvlan, v1alpha1.NetworkMove}

// Interface is the network interface that claims can request of an HCA.
type Interface struct {
	// Netdev is its name on the host, "" if there is none.
	Netdev string `json:"netdev,omitempty"`
	// Parent is the interface below those that the driver makes, if it is another one: the
	// bond, or the interface of the VLAN that the rule names.
	Parent string `json:"parent,omitempty"`
	// LowMTU is why RDMA connections over the interfaces that the driver makes have smaller packets than the HCA can
	// send, "" if they have not.
	LowMTU string `json:"lowMTU,omitempty"`
	// Modes are the modes that claims can request. Refused has the reasons against the others.
	Modes   []string          `json:"modes"`
	Refused map[string]string `json:"refused,omitempty"`
}

// Ask returns the interface of an HCA, the one below that of a pod, and the error that Prepare would return for a mode.
type Ask func(h *rdma.HCA, mode string, vlan int) (netdev, on string, err error)

// AddInterfaces adds the interfaces of the published HCAs. lowMTU returns the LowMTU of an [Interface].
func (s *Status) AddInterfaces(snap *rdma.Snapshot, ask Ask, lowMTU func(netdev, parent string) string) {
	for i := range s.HCAs {
		h := &s.HCAs[i]
		if hca := snap.Lookup(h.Name); hca != nil && len(h.Devices) > 0 {
			h.Interface = h.interfaceOf(hca, ask)
			if i := h.Interface; i.Parent != "" && len(i.Modes) > 0 {
				i.LowMTU = lowMTU(i.Netdev, i.Parent)
			}
		}
	}
}

func (h *HCA) interfaceOf(hca *rdma.HCA, ask Ask) *Interface {
	alone := slices.ContainsFunc(h.Devices, func(d Device) bool { return d.Name == h.Name })
	resourceName, _ := h.Attributes[string(resources.AttributeResourceName)].(string)
	out := &Interface{Modes: []string{}, Refused: map[string]string{}}
	for _, mode := range modes {
		netdev, on, err := ask(hca, mode, h.VLAN)
		out.Netdev = netdev
		if on != netdev && on != "" {
			out.Parent = on
		}
		if refused := plan.ModeRefused(mode, alone, resourceName, h.VLAN); refused != nil {
			err = refused
		}
		if err == nil {
			out.Modes = append(out.Modes, mode)
			continue
		}
		out.Refused[mode] = err.Error()
	}
	return out
}
