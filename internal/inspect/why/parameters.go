package why

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	parametersForbidden = Kinds.Kind("ParametersForbidden", claimsRead, classesRead)
)

// checkParameters finds parameters that the class of a request does not allow: the driver will refuse to prepare the
// claim. An alternative of a firstAvailable list is left out, because the claim may get another one.
func checkParameters(c model.ClassLister, claim *resourceapi.ResourceClaim) (found []finding.Finding) {
	if claim.Status.Allocation != nil {
		return nil // the driver speaks for itself, in events
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly == nil || ptr.Deref(r.Exactly.AdminAccess, false) || c[r.Exactly.DeviceClassName] == nil {
			continue
		}
		if err := notAllowed(c[r.Exactly.DeviceClassName], claim, r.Name); err != nil {
			found = append(found, problem(parametersForbidden,
				fmt.Sprintf("the driver will refuse the parameters of request %s: %v", r.Name, err),
				"create the claim again without them, or with a class that allows them",
				"claim/"+claim.Name, "request/"+r.Name))
		}
	}
	return found
}

// notAllowed returns why a class does not allow the parameters of a request. It ignores parameters that it cannot
// decode, because the driver may be newer than this program.
func notAllowed(class *resourceapi.DeviceClass, claim *resourceapi.ResourceClaim, request string) error {
	var allow v1alpha1.Allow
	var wishes v1alpha1.Settings
	for _, c := range class.Spec.Config {
		if config, ok := decoded(c.DeviceConfiguration).(*v1alpha1.HCAClassConfig); ok {
			allow.Overlay(config.Allow)
		}
	}
	for _, c := range claim.Spec.Devices.Config {
		config, ok := decoded(c.DeviceConfiguration).(*v1alpha1.HCAConfig)
		if ok && (len(c.Requests) == 0 || slices.Contains(c.Requests, request)) {
			wishes.Overlay(config.Settings)
		}
	}
	return allow.Check(wishes, nil).ToAggregate()
}

func decoded(c resourceapi.DeviceConfiguration) any {
	if c.Opaque == nil || c.Opaque.Driver != rdma.Domain {
		return nil
	}
	config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
	if err != nil {
		return nil
	}
	return config
}
