package drivertest

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Hold answers no request of a kind until the returned function is called.
func (a *API) Hold(request string) (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gate := make(chan struct{})
	a.held[request] = gate
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.held, request)
		close(gate)
	}
}

// DeviceStatus returns the device entries in the status of a claim.
func (a *API) DeviceStatus(c *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if claim := a.claims[nameOf(c)]; claim != nil {
		return claim.DeepCopy().Status.Devices
	}
	return nil
}

// applyStatus is server-side apply to the status of a claim, by the one manager
// that there is: what it does not name any more is removed.
func (a *API) applyStatus(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	wanted := &resourceapi.ResourceClaim{}
	if err == nil {
		err = yaml.UnmarshalStrict(body, wanted)
	}
	query := r.URL.Query()
	if kind := r.Header.Get("Content-Type"); err == nil && (kind != string(types.ApplyYAMLPatchType) || query.Get("fieldManager") != driverName) {
		err = fmt.Errorf("%s by %q is no server-side apply by the driver", kind, query.Get("fieldManager"))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := a.claims[types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}]
	switch {
	case claim == nil:
		notFound(w, r)
		return
	case wanted.UID != "" && wanted.UID != claim.UID:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "precondition failed: UID")
		return
	}
	for _, d := range wanted.Status.Devices {
		if !slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device && equality.Semantic.DeepEqual((*string)(r.ShareID), d.ShareID)
		}) {
			refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "status.devices: must be an allocated device in the claim")
			return
		}
	}
	claim.Status.Devices = wanted.Status.Devices
	answer(w, http.StatusOK, claim)
}
