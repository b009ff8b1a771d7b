package drivertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

var sliceType = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}

// watchEvent is one change of a slice.
type watchEvent struct {
	revision int64
	Type     string `json:"type"`
	Object   any    `json:"object"`
}

// announce tells the watchers of a change. The caller holds the lock.
func (a *API) announce(kind string, s *resourceapi.ResourceSlice) {
	s.ResourceVersion = a.nextRevision()
	a.lastWord = time.Now()
	a.log = append(a.log, watchEvent{a.revision, kind, s.DeepCopy()})
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *API) getNode(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noNode || r.PathValue("name") != a.node.Name {
		notFound(w, r)
		return
	}
	answer(w, http.StatusOK, &a.node)
}

func (a *API) getClaim(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := a.claims[types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}]
	if claim == nil {
		notFound(w, r)
		return
	}
	if status := a.failing[GetClaimOf(claim)]; status != 0 {
		fail(w, r, status, GetClaimOf(claim))
		return
	}
	answerClaim(w, r, claim)
}

func (a *API) createEvent(w http.ResponseWriter, r *http.Request) {
	var event corev1.Event
	if !decode(w, r, &event) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	event.Name = fmt.Sprintf("%s%d", event.GenerateName, len(a.events))
	a.events = append(a.events, event)
	answer(w, http.StatusCreated, &event)
}

// patchEvent counts an event that came again.
func (a *API) patchEvent(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.events, func(e corev1.Event) bool { return e.Name == r.PathValue("name") })
	if i < 0 {
		notFound(w, r)
		return
	}
	a.events[i].Count++
	answer(w, http.StatusOK, &a.events[i])
}

func (a *API) listSlices(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		a.watchSlices(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &resourceapi.ResourceSliceList{TypeMeta: metav1.TypeMeta{APIVersion: sliceType.APIVersion, Kind: "ResourceSliceList"}}
	list.ResourceVersion = strconv.FormatInt(a.revision, 10)
	metadata := strings.Contains(r.Header.Get("Accept"), ";as=PartialObjectMetadataList;")
	for _, name := range slices.Sorted(maps.Keys(a.slices)) {
		item := *a.slices[name]
		if metadata { // what is left has the same form
			item.Spec = resourceapi.ResourceSliceSpec{}
		}
		list.Items = append(list.Items, item)
	}
	answer(w, http.StatusOK, list)
}

// watchSlices streams changes: from a version on, or all slices first and then a
// bookmark that says so (KEP-3157).
func (a *API) watchSlices(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	var initial []watchEvent
	if query.Get("sendInitialEvents") == "true" {
		initial, since = a.initialEvents()
	} else if a.forgotten(since) {
		refuse(w, r, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	stream := json.NewEncoder(w)
	send := func(events []watchEvent) bool {
		for _, e := range events {
			if stream.Encode(e) != nil {
				return false
			}
		}
		return http.NewResponseController(w).Flush() == nil
	}
	for send(initial) {
		events, changed := a.after(since)
		if len(events) > 0 {
			since = events[len(events)-1].revision
			initial = events
			continue
		}
		initial = nil
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func (a *API) initialEvents() ([]watchEvent, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var events []watchEvent
	for _, name := range slices.Sorted(maps.Keys(a.slices)) {
		events = append(events, watchEvent{Type: "ADDED", Object: a.slices[name].DeepCopy()})
	}
	end := &resourceapi.ResourceSlice{TypeMeta: sliceType, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatInt(a.revision, 10),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	return append(events, watchEvent{Type: "BOOKMARK", Object: end}), a.revision
}

// forgotten reports whether the changes since a version are not known any more.
func (a *API) forgotten(revision int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return revision < a.oldest
}

// after returns the changes since a version, and what is closed at the next one.
func (a *API) after(revision int64) ([]watchEvent, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.log, func(e watchEvent) bool { return e.revision > revision })
	if i < 0 {
		return nil, a.changed
	}
	return slices.Clone(a.log[i:]), a.changed
}

func (a *API) createSlice(w http.ResponseWriter, r *http.Request) {
	slice := &resourceapi.ResourceSlice{}
	if !decode(w, r, slice) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slice.Name == "" {
		slice.Name = fmt.Sprintf("%s%05x", slice.GenerateName, a.revision)
	}
	if a.slices[slice.Name] != nil {
		refuse(w, r, http.StatusConflict, metav1.StatusReasonAlreadyExists, slice.Name+" exists")
		return
	}
	if why := a.invalid(slice); why != "" {
		refuse(w, r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
		return
	}
	a.drop(slice)
	slice.TypeMeta, slice.Generation, slice.CreationTimestamp = sliceType, 1, metav1.Now()
	slice.UID = types.UID(fmt.Sprintf("slice-%d", a.revision))
	a.slices[slice.Name] = slice
	a.announce("ADDED", slice)
	answer(w, http.StatusCreated, slice)
	a.collect()
}

func (a *API) updateSlice(w http.ResponseWriter, r *http.Request) {
	slice := &resourceapi.ResourceSlice{}
	if !decode(w, r, slice) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.slices[r.PathValue("name")]
	switch {
	case old == nil:
		notFound(w, r)
		return
	case slice.ResourceVersion != "" && slice.ResourceVersion != old.ResourceVersion:
		refuse(w, r, http.StatusConflict, metav1.StatusReasonConflict, slice.Name+" was changed")
		return
	case a.invalid(slice) != "":
		refuse(w, r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, a.invalid(slice))
		return
	}
	a.drop(slice)
	slice.TypeMeta, slice.Generation, slice.UID = sliceType, old.Generation+1, old.UID
	a.slices[slice.Name] = slice
	a.announce("MODIFIED", slice)
	answer(w, http.StatusOK, slice)
}

func (a *API) deleteSlice(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slice := a.slices[r.PathValue("name")]
	if slice == nil {
		notFound(w, r)
		return
	}
	delete(a.slices, slice.Name)
	a.announce("DELETED", slice)
	answer(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

// decode reads an object in any of the API's encodings: clients prefer protobuf.
func decode(w http.ResponseWriter, r *http.Request, into runtime.Object) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	}
	if err != nil {
		refuse(w, r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return false
	}
	return true
}
