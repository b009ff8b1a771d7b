package node

import (
	"context"
	"errors"
	"maps"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// A driver stores four things for the next driver of the same boot (docs/adr/0013). The first is the last known state
// of HCAs, because HCAs that claims hold may be missing at the start. The second is their health: present conditions,
// and falls of links, since a link may fall only once in hours. The third is the VPD of cards, because it is read once
// a boot. The fourth are the leaf switches of HCAs (docs/adr/0057).
const (
	memoryHCAs   = "hcas"
	memoryHealth = "health"
	memoryVPD    = "vpd"
	memoryLeaves = "leaves"
)

// recall reads what the driver before has stored.
func (n *Node) recall() error {
	var hcas []rdma.HCA
	_, errHCAs := n.cfg.Store.Memory().Recall(memoryHCAs, &hcas)
	if errHCAs == nil {
		n.replace(func(h *Host) { h.learn(hcas) })
	}
	var past map[string]health.Past
	_, errPast := n.cfg.Store.Memory().Recall(memoryHealth, &past)
	if errPast == nil {
		n.health.model.Recall(past, n.cfg.Now())
	}
	return errors.Join(errHCAs, errPast)
}

// remember stores what health knows of the past for the next driver, if that changed.
func (j *judge) remember(ctx context.Context, m claimstore.Memory) {
	past, changed := j.model.Past()
	if !changed {
		return
	}
	if err := m.Remember(memoryHealth, past); err != nil {
		klog.FromContext(ctx).Error(err, "After a restart the driver will not know how often links fell")
	}
}

// learn adds HCAs that were not seen since the driver started.
func (h *Host) learn(hcas []rdma.HCA) {
	h.seen = maps.Clone(h.seen)
	for _, hca := range hcas {
		if was, ok := h.seen[hca.Name]; !ok || was.Foreign() {
			h.seen[hca.Name] = &hca
		}
	}
}

// remember stores the HCAs for the next driver, if a new one was seen: those that are present or held.
func (n *Node) remember(ctx context.Context) {
	if !n.unsaved.Swap(false) {
		return
	}
	view := View{Host: n.Host(), Plans: plansOf(ctx, n.cfg.Store)}
	if err := n.cfg.Store.Memory().Remember(memoryHCAs, view.remarkable()); err != nil {
		n.unsaved.Store(true)
		klog.FromContext(ctx).Error(err, "After a restart the driver will not know missing HCAs")
	}
}
