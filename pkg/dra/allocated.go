package dra

import (
	"sync/atomic"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// allocated remembers HCAs that claims hold, so that they stay published while they
// are away: a scheduler or an autoscaler that finds an allocated device missing
// takes the node for a smaller one. It is used by publishLoop alone, but for away.
type allocated struct {
	seen map[string]rdma.HCA // each usable HCA, as it was last
	away atomic.Bool         // whether a claim holds one that is not there
}

// keep returns a snapshot that has, besides what is there, the HCAs that the named
// devices last were. It knows those that were there since the driver started.
func (a *allocated) keep(snap *rdma.Snapshot, held []string) *rdma.Snapshot {
	if a.seen == nil {
		a.seen = map[string]rdma.HCA{}
	}
	usable := map[string]bool{}
	for _, h := range snap.Usable() {
		a.seen[h.Name] = *h
		usable[h.Name] = true
	}
	var missing []rdma.HCA
	for _, name := range held {
		if h, ok := a.seen[name]; ok && !usable[name] {
			missing = append(missing, h)
			usable[name] = true
		}
	}
	a.away.Store(len(missing) > 0)
	if len(missing) == 0 {
		return snap
	}
	return snap.With(missing...)
}
