package why

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// unbound finds the devices of an allocated claim for which the scheduler waits. It gives the pod a node only when the
// drivers of the devices have set the conditions that they named.
func unbound(claim *resourceapi.ResourceClaim) (out []Finding) {
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
		f := Finding{Reason: "NotBound", Claim: claim.Name, Devices: []string{name}}
		if i := slices.IndexFunc(r.BindingFailureConditions, isTrue); i >= 0 {
			failed := meta.FindStatusCondition(status.Conditions, r.BindingFailureConditions[i])
			f.Message = fmt.Sprintf("driver %s could not make device %s of claim %s ready: %s (%s): %s",
				r.Driver, name, claim.Name, failed.Type, failed.Reason, text.Foreign(failed.Message))
			f.Remedy = "wait: the scheduler takes the device back, and tries again"
			out = append(out, f)
			continue
		}
		if missing := slices.DeleteFunc(slices.Clone(r.BindingConditions), isTrue); len(missing) > 0 {
			f.Minor = true
			f.Message = fmt.Sprintf("device %s of claim %s waits until driver %s sets %s",
				name, claim.Name, r.Driver, strings.Join(missing, ", "))
			f.Remedy = "look at that driver's log; after its bindingTimeout (10 minutes) the scheduler tries other devices"
			out = append(out, f)
		}
	}
	return out
}
