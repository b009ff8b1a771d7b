package claims

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// A claim with a record holds its HCAs on the node until its Unprepare. The kubelet may never call it, because it has
// lost its state. The driver then decides from evidence whether to remove the record.

// evidence is what is known about a claim with a record.
type evidence struct {
	// Allocation is the API server's answer.
	Allocation allocation
	// Listed are the pods with the claim in the kubelet's list, as "namespace/name".
	Listed []string
	// Running are the UIDs of pods that got the claim and still have a cgroup on the node, or a sandbox in the
	// container runtime.
	Running []types.UID
	// Doubt is the reason why a pod may be missing above, or why the allocation is unknown.
	Doubt error
}

// allocation is the API server's state of the allocation that a record was made from.
type allocation int

const (
	allocationUnknown   allocation = iota // the API server has not answered
	allocationStands                      // the claim of that UID has all devices of the record
	allocationGone                        // there is no claim of that UID
	allocationEnded                       // the claim has no allocation
	allocationElsewhere                   // the claim has another allocation, here or on another node
)

// allocationOf compares a record with the API server's claim of the same name, nil for none. An allocation never
// changes while it lasts. So a claim that lacks one device of the record has another allocation.
func allocationOf(p *plan.Plan, claim *resourceapi.ResourceClaim) allocation {
	switch {
	case claim == nil || claim.UID != p.UID:
		return allocationGone
	case claim.Status.Allocation == nil:
		return allocationEnded
	case p.IsOf(claim):
		return allocationStands
	default:
		return allocationElsewhere
	}
}

// String returns the state of the claim as text for people.
func (a allocation) String() string { return allocationTexts[a] }

var allocationTexts = map[allocation]string{
	allocationUnknown:   "the API server has not said what has become of it",
	allocationStands:    "it is allocated here",
	allocationGone:      "it is gone from the API server",
	allocationEnded:     "it is not allocated any more",
	allocationElsewhere: "the record is of an earlier allocation, and it has other devices now",
}

// usage is the decision about a record. Only over allows its removal.
type usage int

const (
	maybeInUse usage = iota // it may be in use
	inUse                   // its allocation stands
	listed                  // a pod of the kubelet uses it
	running                 // the kubelet lists no such pod, but a pod that was deleted by force runs
	over                    // no pod can use it
)

// usage returns the decision. Known users of the claim take precedence over doubt, because they tell people what to
// do.
func (e evidence) usage() usage {
	switch {
	case e.Allocation == allocationStands:
		return inUse
	case len(e.Listed) > 0:
		return listed
	case len(e.Running) > 0:
		return running
	case e.Doubt != nil || e.Allocation == allocationUnknown:
		return maybeInUse
	default:
		return over
	}
}

// why returns the text for why a record stays, and what to do. record is the file of the record.
func (e evidence) why(record string) string {
	switch e.usage() {
	case listed:
		return fmt.Sprintf("%v, but the kubelet still lists pod %s with it; delete the pod",
			e.Allocation, strings.Join(e.Listed, ", "))
	case running:
		var pods []string
		for _, uid := range e.Running {
			pods = append(pods, string(uid))
		}
		return fmt.Sprintf("%v, but pod %s got it and still runs, as after a forced deletion; stop it on the node: "+
			"crictl stopp $(crictl pods -q --label io.kubernetes.pod.uid=%s)", e.Allocation, strings.Join(pods, ", "), pods[0])
	case maybeInUse:
		return fmt.Sprintf("%v, and the driver cannot tell whether a container still uses it: %v; "+
			"it tries again, and if you know that none does, remove the file %s on the node", e.Allocation, e.Doubt, record)
	default:
		return e.Allocation.String()
	}
}
