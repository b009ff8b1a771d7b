package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	deviceNotReady     = Kinds.Kind("DeviceNotReady", claimsRead)
	deviceNotPublished = Kinds.Kind("DeviceNotPublished", slicesRead)
	deviceTainted      = Kinds.Kind("DeviceTainted", slicesRead)
	notBound           = Kinds.Kind("NotBound", claimsRead)
	deviceNotUsable    = Kinds.Kind("DeviceNotUsable", claimsRead)
)

// Faults are what is wrong with the devices of a claim: the driver's conditions, taints, and devices that are not
// published any more. It says nothing of published devices if the slices could not be read.
func Faults(v *model.View, claim *resourceapi.ResourceClaim) (out []finding.Finding) {
	fault := func(kind *finding.Kind, device, what, remedy string) {
		out = append(out, problem(kind, fmt.Sprintf("device %s of claim %s %s", device, claim.Name, what), remedy,
			"claim/"+claim.Name, "device/"+device))
	}
	for _, s := range claim.Status.Devices {
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionFalse {
				remedy := "see docs/health.md; when the device is back the pod can go on, else create it again"
				if s.Driver != rdma.Domain {
					remedy = "look at the documents and the log of driver " + s.Driver
				}
				name := model.DeviceName(structured.MakeDeviceID(s.Driver, s.Pool, s.Device))
				fault(deviceNotReady, name, "is not ready: "+text.Foreign(c.Reason+": "+c.Message), remedy)
			}
		}
	}
	if v.Cluster.Unread.Has(model.Slices) {
		return out
	}
	for _, r := range model.ResultsOf(claim) {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		d := v.Known[id]
		if d == nil {
			fault(deviceNotPublished, model.DeviceName(id), "is in no ResourceSlice", lostRemedy(r))
			continue
		}
		taints := slices.DeleteFunc(model.Untolerated(d, r.Tolerations), func(t model.Taint) bool {
			return t.Key == model.DrainingTaint // that keeps the device for the claim
		})
		by, at := evictedBy(d, r.Tolerations)
		for _, t := range by {
			taints = model.AppendNew(taints, t)
		}
		if len(taints) > 0 {
			fault(deviceTainted, d.String(),
				"has the taint "+model.TaintNames(taints)+evictionNote(by, at.Sub(v.Cluster.Now), at), taintRemedy(taints))
		}
	}
	return out
}

// lostRemedy says where to look for a device that no slice has.
func lostRemedy(r resourceapi.DeviceRequestAllocationResult) string {
	if r.Driver != rdma.Domain {
		return fmt.Sprintf("driver %s does not run there, or lost the device: look at its pods and its log", r.Driver)
	}
	return "the driver on that node does not run, or lost the device: kubectl rdma nodes " + text.Shell(r.Pool)
}

// evictionNote says when Kubernetes ends the pod because of taints, and how long that is from now; "" for none.
func evictionNote(by []model.Taint, left time.Duration, at time.Time) string {
	switch {
	case len(by) == 0:
		return ""
	case left <= 0:
		return ": Kubernetes evicts the pod"
	default:
		return fmt.Sprintf(": Kubernetes evicts the pod at %s, in %s", text.Time(at), duration.HumanDuration(left))
	}
}

// taintRemedy says what to do about the taints of a device that a request should get.
func taintRemedy(taints []model.Taint) string {
	ways := ends(taints)
	if len(taints) == 1 {
		return ways[0] + ", or tolerate the taint in the request"
	}
	return text.Some(ways, "; ") + "; or tolerate the taints in the request"
}

// ends says how taints end, each way once.
func ends(taints []model.Taint) (ways []string) {
	for _, t := range taints {
		way := "ask who runs the driver that set it"
		switch {
		case t.Drain != nil:
			way = "run " + undrain(t.Drain) + " after the repair"
		case t.Rule != "":
			way = "ask the author of DeviceTaintRule " + t.Rule + " to remove it"
		case t.Key == model.DrainingTaint:
			way = "have the policy of the driver offer the device again"
		case t.OfDriver():
			way = "repair the cause as docs/health.md says"
		}
		ways = model.AppendNew(ways, way)
	}
	return ways
}

// undrain is the command that ends a drain.
func undrain(d *model.Drain) string {
	command := text.Shells("kubectl", "rdma", "undrain", d.Node)
	if d.HCA != "" {
		command += " " + text.Shell(d.HCA)
	}
	return command
}

// unbound finds the devices of an allocated claim for which the scheduler waits. It gives the pod a node only when the
// drivers of the devices have set the conditions that they named.
func unbound(claim *resourceapi.ResourceClaim) (out []finding.Finding) {
	for _, r := range model.ResultsOf(claim) {
		var status resourceapi.AllocatedDeviceStatus
		for _, s := range claim.Status.Devices {
			if s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device &&
				ptr.Deref(s.ShareID, "") == string(ptr.Deref(r.ShareID, "")) {
				status = s
			}
		}
		isTrue := func(name string) bool { return meta.IsStatusConditionTrue(status.Conditions, name) }
		name := r.Pool + "/" + r.Device
		subjects := []string{"claim/" + claim.Name, "device/" + name}
		if i := slices.IndexFunc(r.BindingFailureConditions, isTrue); i >= 0 {
			failed := meta.FindStatusCondition(status.Conditions, r.BindingFailureConditions[i])
			out = append(out, problem(notBound,
				fmt.Sprintf("driver %s could not make device %s of claim %s ready: %s (%s): %s",
					r.Driver, name, claim.Name, failed.Type, failed.Reason, text.Foreign(failed.Message)),
				"wait: the scheduler takes the device back, and tries again", subjects...))
		} else if missing := slices.DeleteFunc(slices.Clone(r.BindingConditions), isTrue); len(missing) > 0 {
			out = append(out, note(notBound, fmt.Sprintf("device %s of claim %s waits until driver %s sets %s",
				name, claim.Name, r.Driver, strings.Join(missing, ", ")),
				"look at that driver's log; after its bindingTimeout (10 minutes) the scheduler tries other devices",
				subjects...))
		}
	}
	return out
}

// Unusable returns a finding for each device that containers cannot use.
func Unusable(claim *resourceapi.ResourceClaim) (out []finding.Finding) {
	for _, u := range usesOf(claim) {
		if u.Usable == metav1.ConditionFalse {
			out = append(out, problem(deviceNotUsable,
				fmt.Sprintf("device %s of claim %s cannot be used: %s", u.Device, claim.Name, text.Foreign(u.Checks)),
				"a program would fall back to TCP; docs/slow-job.md has the remedies",
				"claim/"+claim.Name, "device/"+u.Device))
		}
	}
	return out
}

// evictedBy returns the taints of a device that end the pods of an allocated one, and the first time at which one does.
func evictedBy(d *model.Device, tolerations []resourceapi.DeviceToleration) (by []model.Taint, at time.Time) {
	for _, t := range d.AllTaints() {
		after, ends := model.Evicts(t.DeviceTaint, tolerations)
		if !ends || t.TimeAdded == nil { // the API server sets the time
			continue
		}
		by = append(by, t)
		if end := t.TimeAdded.Add(after); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return by, at
}
