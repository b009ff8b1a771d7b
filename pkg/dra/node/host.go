package node

import (
	"io/fs"
	"maps"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Host is the host at one moment. It is immutable.
type Host struct {
	// Snapshot has the HCAs that are present or in the network namespace of a pod.
	*rdma.Snapshot
	// Sys is the host's /sys. It is read for data that changes without an event, such as GIDs.
	Sys fs.ReadLinkFS

	seen  map[string]*rdma.HCA // last known state of each usable HCA
	inPod map[string]bool      // HCAs in the network namespaces of pods
}

// View is a host with the health that was judged from it, and with its prepared claims. It is immutable. Node replaces
// host and health in one step, so a decision never has the link of one moment and the taint of another.
type View struct {
	*Host
	// Health is the health of the HCAs, judged from this Host.
	Health *health.View
	// Leaves are the leaf switches of the HCAs. It is nil while the policy names no source of them.
	Leaves *leaf.View
	// Plans are the plans of the prepared claims.
	Plans []*plan.Plan

	outdated chan struct{} // see Outdated
}

// Outdated returns a channel that is closed when an HCA has another health than in the View.
func (v View) Outdated() <-chan struct{} { return v.outdated }

// Known returns the last known state of an HCA, which may be absent now.
func (h *Host) Known(name string) (rdma.HCA, bool) {
	hca, ok := h.seen[name]
	if !ok {
		return rdma.HCA{}, false
	}
	return *hca, true
}

// InPod reports whether an HCA is in the network namespace of a pod.
func (h *Host) InPod(name string) bool { return h.inPod[name] }

// Cards returns the heads of the card that an HCA is a VF or SF of, by name, sorted. It returns none for any other HCA.
func (h *Host) Cards(name string) []string {
	part := h.seen[name]
	if part == nil || part.PF == "" {
		return nil
	}
	var names []string
	for _, hca := range h.seen {
		if hca.PF == "" && hca.Family() == part.Family() {
			names = append(names, hca.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Missing returns the last known state of the HCAs that claims hold and that are not usable now. They must stay
// published. A scheduler or an autoscaler that finds an allocated device missing would take the node for a smaller one.
func (v View) Missing() []rdma.HCA {
	usable := map[string]bool{}
	for _, hca := range v.Usable() {
		usable[hca.Name] = true
	}
	var missing []rdma.HCA
	for _, p := range v.Plans {
		for _, name := range p.HCAs() {
			if hca, ok := v.Known(name); ok && !usable[name] {
				missing = append(missing, hca)
				usable[name] = true
			}
		}
	}
	return missing
}

// Absent returns the missing HCAs that are not on the host at all.
func (v View) Absent() []rdma.HCA {
	return slices.DeleteFunc(v.Missing(), func(hca rdma.HCA) bool { return v.Lookup(hca.Name) != nil })
}

// unbound returns the names of the absent HCAs whose PCI functions are present: the functions have no driver.
func (v View) unbound() []string {
	var out []string
	for _, hca := range v.Absent() {
		if hca.Identity.PCI == "" || hca.Identity.SF != nil {
			continue
		}
		if _, err := fs.Stat(v.Sys, "bus/pci/devices/"+hca.Identity.PCI); err == nil {
			out = append(out, hca.Name)
		}
	}
	return out
}

// held returns the names of the HCAs that claims hold.
func (v View) held() []string {
	var names []string
	for _, p := range v.Plans {
		names = append(names, p.HCAs()...)
	}
	return names
}

// remarkable returns the HCAs that the next driver must know, sorted by name: those that are present or held.
func (v View) remarkable() []rdma.HCA {
	held := v.held()
	out := []rdma.HCA{}
	for _, name := range slices.Sorted(maps.Keys(v.seen)) {
		if v.Lookup(name) != nil || slices.Contains(held, name) {
			out = append(out, *v.seen[name])
		}
	}
	return out
}
