package attach

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
)

// checkMode returns an error if a pod has an interface that excludes the wanted one on top of the same interface of
// the host. The host does not see the interfaces of pods, so the records have to say it.
func (all others) checkMode(w podnet.Want, parent podnet.Original) error {
	for _, o := range all.records {
		if o.isOn(parent, w.VLAN, all.bootID) && podnet.Excludes(w.Mode, o.Want.Mode) {
			who := fmt.Sprintf("pod %s (%s) by claim %s", o.Pod.Name, o.Pod.UID, o.ClaimName)
			return podnet.OtherKind(w.Mode, o.Want.Mode, who)
		}
	}
	return nil
}

// isOn reports whether a pod may have an interface on top of one of the host, or of its VLAN, according to the record.
func (r *Record) isOn(parent podnet.Original, vlan int, bootID string) bool {
	return r.Want.Mode != podnet.Move && r.begun() && !r.Detached && r.thisBoot(bootID) &&
		r.Original.Index == parent.Index && r.Want.VLAN == vlan
}

// Lacks has a sentence for each thing that an interface in a pod lacks, although the pod can use it; "" for nothing.
type Lacks struct {
	LowMTU   string // why RDMA connections have smaller packets than the HCA can send
	OpenIPv6 string // why routers on the fabric can give the interface addresses and routes
}

// LacksOf returns what the interface lacks that a pod has by a claim's device. A moved interface sets the MTU of its
// HCA.
func (a *Attacher) LacksOf(pod Pod, claim types.UID, device string) (l Lacks) {
	r := a.recordIn(claim, device, func(p Pod) bool { return p == pod })
	if r == nil {
		return l
	}
	if r.Want.Mode != podnet.Move {
		l.LowMTU = podnet.LowMTU(r.State.Name, r.State.MTU, r.Original.MTU)
	}
	if r.State.IPv6 != "" {
		l.OpenIPv6 = fmt.Sprintf("routers on the fabric can give network interface %s addresses and routes: %s",
			r.State.Name, r.State.IPv6)
	}
	return l
}
