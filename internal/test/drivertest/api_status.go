package drivertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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

// LoseStatus removes the device entries from the status of a claim, as the restoration of a backup does.
func (a *API) LoseStatus(c *resourceapi.ResourceClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims[nameOf(c)].Status.Devices = nil
}

// applyStatus is server-side apply to the status of a claim, by the one manager
// that there is: what it does not name any more of its own is removed.
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
		refuse(w, r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	a.writeStatus(w, r, wanted, func(was *resourceapi.ResourceClaimStatus) *resourceapi.ResourceClaimStatus {
		status := was.DeepCopy()
		recode(status)
		status.Devices = slices.DeleteFunc(status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver == driverName })
		status.Devices = append(status.Devices, wanted.Status.Devices...)
		return status
	})
}

// putStatus replaces the status of a claim.
func (a *API) putStatus(w http.ResponseWriter, r *http.Request) {
	wanted := &resourceapi.ResourceClaim{}
	if !decode(w, r, wanted) {
		return
	}
	a.writeStatus(w, r, wanted, func(*resourceapi.ResourceClaimStatus) *resourceapi.ResourceClaimStatus { return &wanted.Status })
}

// writeStatus makes of the status of a claim another one, unless a precondition of what is wanted is not met,
// or the driver may not.
func (a *API) writeStatus(w http.ResponseWriter, r *http.Request, wanted *resourceapi.ResourceClaim, after func(was *resourceapi.ResourceClaimStatus) *resourceapi.ResourceClaimStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := a.claims[types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}]
	switch {
	case claim == nil:
		notFound(w, r)
		return
	case wanted.UID != "" && wanted.UID != claim.UID:
		refuse(w, r, http.StatusConflict, metav1.StatusReasonConflict, "precondition failed: UID")
		return
	case wanted.ResourceVersion != "" && wanted.ResourceVersion != claim.ResourceVersion:
		refuse(w, r, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		return
	}
	status := after(&claim.Status)
	if why := invalidStatus(status, &claim.Status); why != "" {
		refuse(w, r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
		return
	}
	claim.Status, claim.ResourceVersion = *status, a.nextRevision()
	answerClaim(w, r, claim)
}

// recode encodes all JSON of a status anew, as the API server does for server-side apply: what somebody
// wrote with spaces, or with keys in another order, has other bytes then.
func recode(s *resourceapi.ResourceClaimStatus) {
	if s.Allocation != nil {
		for i := range s.Allocation.Devices.Config {
			if opaque := s.Allocation.Devices.Config[i].Opaque; opaque != nil {
				recodeOne(&opaque.Parameters)
			}
		}
	}
	for i := range s.Devices {
		if data := s.Devices[i].Data; data != nil {
			recodeOne(data)
		}
	}
}

func recodeOne(e *runtime.RawExtension) {
	var value any
	if utiljson.Unmarshal(e.Raw, &value) == nil {
		e.Raw, _ = json.Marshal(value) // was JSON before
	}
}

// invalidStatus is why the API server does not let the driver write a status, as in
// pkg/registry/resource/resourceclaim. It compares bytes.
func invalidStatus(now, was *resourceapi.ResourceClaimStatus) string {
	if !equality.Semantic.DeepEqual(now.Allocation, was.Allocation) || !equality.Semantic.DeepEqual(now.ReservedFor, was.ReservedFor) {
		return `status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding"`
	}
	foreign := func(s *resourceapi.ResourceClaimStatus) []resourceapi.AllocatedDeviceStatus {
		return slices.DeleteFunc(slices.Clone(s.Devices), func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver == driverName })
	}
	if !equality.Semantic.DeepEqual(foreign(now), foreign(was)) {
		return `status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver"`
	}
	for _, d := range now.Devices {
		if now.Allocation == nil || !slices.ContainsFunc(now.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device && equality.Semantic.DeepEqual((*string)(r.ShareID), d.ShareID)
		}) {
			return "status.devices: must be an allocated device in the claim"
		}
	}
	return ""
}

// answerClaim answers in protobuf who asks for it: unlike JSON it has the bytes of parameters and data as they are.
func answerClaim(w http.ResponseWriter, r *http.Request, claim *resourceapi.ResourceClaim) {
	if !strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		answer(w, http.StatusOK, claim)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_ = protobuf.NewSerializer(nil, nil).Encode(claim, w) // the client may have gone
}
