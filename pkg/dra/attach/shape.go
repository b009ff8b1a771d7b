package attach

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
)

// othersExclude returns an error if a pod has an interface that excludes the wanted one on top of the same interface of
// the host. The host does not see the interfaces of pods, so the records have to say it.
func (a *Attacher) othersExclude(others []Record, w podnet.Want, parent podnet.Original) error {
	for _, o := range others {
		if o.isOn(parent, a.store.bootID) && podnet.Excludes(w.Mode, o.Want.Mode) {
			who := fmt.Sprintf("pod %s (%s) by claim %s", o.Pod.Name, o.Pod.UID, o.ClaimName)
			return podnet.OtherKind(w.Mode, o.Want.Mode, who)
		}
	}
	return nil
}

// isOn reports whether a pod may have an interface on top of one of the host, according to the record.
func (r *Record) isOn(parent podnet.Original, bootID string) bool {
	return r.Want.Mode != podnet.Move && r.begun() && !r.Returned && r.thisBoot(bootID) && r.Original.Index == parent.Index
}
