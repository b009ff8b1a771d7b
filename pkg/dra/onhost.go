package dra

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// onHost are the pods that run with the host's network. On a host in exclusive mode they use the HCAs of their claims where these
// are, on the host: another pod of such a claim would take the HCA away under them, and waits until they have ended.
//
// The value says whether the API server has said which claims are reserved for the pod. Until then each claim that it may share counts as its.
type onHost struct {
	mu   sync.Mutex
	pods map[nri.Pod]bool
}

func newOnHost() *onHost { return &onHost{pods: map[nri.Pod]bool{}} }

// set replaces the pods, and keeps what is known of those that stay.
func (o *onHost) set(pods []nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.pods
	o.pods = map[nri.Pod]bool{}
	for _, p := range pods {
		o.pods[p] = before[p]
	}
}

func (o *onHost) add(p nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.pods[p]; !known {
		o.pods[p] = false
	}
}

// learned says that the claims of pods are known, but for those that are unsure.
func (o *onHost) learned(pods, unsure []nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range pods {
		if _, runs := o.pods[p]; runs && !slices.Contains(unsure, p) {
			o.pods[p] = true
		}
	}
}

func (o *onHost) drop(p nri.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pods, p)
}

// unsure returns the pods whose claims are not known.
func (o *onHost) unsure() (out []nri.Pod) {
	for p, known := range o.all() {
		if !known {
			out = append(out, p)
		}
	}
	return out
}

func (o *onHost) all() map[nri.Pod]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.pods)
}

// among returns those of some pods that run with the host's network.
func (o *onHost) among(pods []types.UID) (out []types.UID) {
	for p := range o.all() {
		if slices.Contains(pods, types.UID(p.UID)) {
			out = append(out, types.UID(p.UID))
		}
	}
	return out
}

// OnHost implements nri.Handler.
func (s sandboxes) OnHost(pods []nri.Pod) { s.onHost.set(pods) }

// moves reports whether HCAs follow pods on this host.
func (s sandboxes) moves() bool {
	return s.host.moves.Mover != nil && rdma.ReadNetnsMode(s.host.sys) == rdma.NetnsExclusive
}

// usedOnHost says which pod uses an HCA of a claim on the host, nil for none. One that is elsewhere is used by nobody there.
func (s sandboxes) usedOnHost(p *plan.Plan, ibdev string) error {
	if _, err := fs.Stat(s.host.sys, path.Join("class/infiniband", ibdev)); err != nil {
		return nil
	}
	for pod, known := range s.onHost.all() {
		switch {
		case slices.Contains(p.Pods, types.UID(pod.UID)):
			return fmt.Errorf("RDMA device %s is used on the host by pod %s/%s (%s), which has the host's network: it is free when that pod has ended", ibdev, pod.Namespace, pod.Name, pod.UID)
		case !known && mayShare(p, pod):
			return fmt.Errorf("RDMA device %s may be used on the host by pod %s/%s (%s), which has the host's network: the API server has not said yet whether it shares the claim; the driver asks again",
				ibdev, pod.Namespace, pod.Name, pod.UID)
		}
	}
	return nil
}
