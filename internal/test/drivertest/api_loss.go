package drivertest

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// RemoveNode deletes the Node object, and with it the slices that it owns.
func (a *API) RemoveNode() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noNode = true
	a.collect()
}

// RecreateNode creates the Node object anew, with another UID. The slices of the one before are deleted.
func (a *API) RecreateNode(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noNode, a.node.UID = false, uid
	a.collect()
}

// collect deletes the slices whose owner does not exist, as the garbage collector does. The caller holds the lock.
func (a *API) collect() {
	for _, name := range slices.Sorted(maps.Keys(a.slices)) {
		s := a.slices[name]
		if len(s.OwnerReferences) > 0 && (a.noNode || s.OwnerReferences[0].UID != a.node.UID) {
			delete(a.slices, name)
			a.announce("DELETED", s)
		}
	}
}

// Backup returns a function that brings back the present Node, slices and revision, as an etcd that is restored from a
// snapshot does, and adds a number of revisions. It ends all connections. A watch from a later revision waits until the
// revision is reached again.
func (a *API) Backup() (restore func(later int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	revision, node, noNode, stored := a.revision, *a.node.DeepCopy(), a.noNode, maps.Clone(a.slices)
	for name, s := range stored {
		stored[name] = s.DeepCopy()
	}
	return func(later int) {
		a.mu.Lock()
		a.revision, a.node, a.noNode, a.slices, a.log, a.oldest = revision+int64(later), node, noNode, stored, nil, 0
		a.mu.Unlock()
		a.server.CloseClientConnections()
	}
}
