package claimstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// holdings is this process's view of the records: which claims hold which HCAs, and how many bytes they take on the
// node. The records are authoritative. The names in the directories of HCAs lead to the records of other processes.
// holdings lead to a record whose name somebody removed by hand.
type holdings struct {
	mu     sync.Mutex
	claims map[types.UID]holding
	byHCA  map[string]map[types.UID]bool // whether the claim shares the HCA
	bytes  int
}

// holding is a claim as this process last read or wrote it.
type holding struct {
	plan  *plan.Plan // nobody changes it
	locks []plan.Lock
	bytes int
}

// set replaces the plan of a claim. It is cheap for the plan that the claim already has.
func (h *holdings) set(p *plan.Plan, recordBytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claims[p.UID].plan == p {
		return
	}
	h.remove(p.UID)
	if h.claims == nil {
		h.claims, h.byHCA = map[types.UID]holding{}, map[string]map[types.UID]bool{}
	}
	now := holding{p, p.Locks(), p.Bytes + recordBytes}
	h.claims[p.UID] = now
	h.bytes += now.bytes
	for _, l := range now.locks {
		if h.byHCA[l.HCA] == nil {
			h.byHCA[l.HCA] = map[types.UID]bool{}
		}
		h.byHCA[l.HCA][p.UID] = l.Shared
	}
}

// drop removes a claim that has no record.
func (h *holdings) drop(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(uid)
}

func (h *holdings) remove(uid types.UID) {
	was := h.claims[uid]
	for _, l := range was.locks {
		delete(h.byHCA[l.HCA], uid)
	}
	h.bytes -= was.bytes
	delete(h.claims, uid)
}

// holdersOf returns the claims that hold an HCA.
func (h *holdings) holdersOf(hca string) []holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]holder, 0, len(h.byHCA[hca]))
	for uid, shared := range h.byHCA[hca] {
		out = append(out, holder{uid, shared})
	}
	return out
}

// others returns the bytes of all claims except one.
func (h *holdings) others(uid types.UID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes - h.claims[uid].bytes
}

// complete adds missing claims to the holders of a locked HCA, and restores their names. A holder counts as shared
// only if the claim's record also says so.
func (s *Store) complete(l *deviceLock, named []holder) ([]holder, error) {
	for _, h := range s.holdings.holdersOf(l.HCA) {
		if i := slices.IndexFunc(named, func(n holder) bool { return n.uid == h.uid }); i >= 0 {
			named[i].shared = named[i].shared && h.shared
			continue
		}
		p, err := s.Get(h.uid)
		if err == nil && (p == nil || !slices.ContainsFunc(p.Locks(), func(o plan.Lock) bool { return o.HCA == l.HCA })) {
			continue // it has ended, or has other HCAs now
		}
		if err := l.add(h); err != nil {
			return nil, err
		}
		named = append(named, h)
	}
	return named, nil
}

// Rebuild reads all records, and restores missing names in the directories of their HCAs. A driver calls it before it
// prepares claims. It needs no locks, because a name without a record has no effect.
func (s *Store) Rebuild() error {
	plans, err := s.List()
	errs := []error{err}
	for _, p := range plans {
		for _, lock := range p.Locks() {
			h := holder{p.UID, lock.Shared}
			path := filepath.Join(s.devices.dir, lock.HCA, h.name())
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
			dir, err := openDir(filepath.Dir(path))
			if err == nil {
				err = (&deviceLock{Lock: lock, dir: dir}).add(h)
				dir.Close()
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
