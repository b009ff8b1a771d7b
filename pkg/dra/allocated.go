package dra

import (
	"sync/atomic"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// allocated remembers whether a claim holds an HCA that is not there. Such HCAs stay
// published: a scheduler or an autoscaler that finds an allocated device missing
// takes the node for a smaller one.
type allocated struct{ away atomic.Bool }

// keep returns a snapshot that has, besides what is there, the HCAs of the given
// names as they last were.
func (a *allocated) keep(h *host, snap *rdma.Snapshot, held []string) *rdma.Snapshot {
	there := map[string]bool{}
	for _, hca := range snap.Usable() {
		there[hca.Name] = true
	}
	var missing []rdma.HCA
	for _, name := range held {
		if hca, ok := h.known(name); ok && !there[name] {
			missing = append(missing, hca)
			there[name] = true
		}
	}
	a.away.Store(len(missing) > 0)
	if len(missing) == 0 {
		return snap
	}
	return snap.With(missing...)
}
