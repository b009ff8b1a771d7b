package pods

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
)

// hostPods has the pods that use the host's network. It is safe for concurrent use. On a host in exclusive mode these
// pods use the HCAs of their claims on the host. Another pod of such a claim would take the HCA away from them, so it
// waits until they have ended.
//
// The value of a pod is true once the API server has answered which claims are reserved for it. Until then, every claim
// that the pod may share counts as its own.
type hostPods struct {
	mu   sync.Mutex
	pods map[nri.Pod]bool
}

func newHostPods() *hostPods { return &hostPods{pods: map[nri.Pod]bool{}} }

// set replaces the pods. Pods that stay keep their values.
func (o *hostPods) set(pods []nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.pods
	o.pods = map[nri.Pod]bool{}
	for _, p := range pods {
		o.pods[p] = before[p]
	}
}

func (o *hostPods) add(p nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.pods[p]; !known {
		o.pods[p] = false
	}
}

// learned marks the claims of pods as known, except for unanswered pods.
func (o *hostPods) learned(pods, unanswered []nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range pods {
		if _, runs := o.pods[p]; runs && !slices.Contains(unanswered, p) {
			o.pods[p] = true
		}
	}
}

func (o *hostPods) drop(p nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pods, p)
}

// unanswered returns the pods whose claims are unknown.
func (o *hostPods) unanswered() (out []nri.Pod) {
	for p, known := range o.all() {
		if !known {
			out = append(out, p)
		}
	}
	return out
}

func (o *hostPods) all() map[nri.Pod]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.pods)
}

// among returns which of the given pods use the host's network.
func (o *hostPods) among(pods []types.UID) (out []types.UID) {
	for p := range o.all() {
		if slices.Contains(pods, types.UID(p.UID)) {
			out = append(out, types.UID(p.UID))
		}
	}
	return out
}
