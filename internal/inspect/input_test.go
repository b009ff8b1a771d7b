package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// input is what the scheduler knows of a pod and its cluster.
type input struct {
	model.Cluster
	Pod      corev1.Pod
	Features structured.Features
}

// newInput returns the input of testdata/input/base.yaml after some patches.
func newInput(t *testing.T, some ...patch.Patches) *input {
	t.Helper()
	in := &input{}
	patch.File(t, "testdata/input/base.yaml", in, some...)
	return in
}

// scheduler reports whether the scheduler's allocator serves the claims of the pod on some node, with the slices of the
// scheduler's tracker. It prepares the input as the plugin DynamicResources does, without the code of this package.
func (in *input) scheduler(t *testing.T) bool {
	t.Helper()
	var all []*resourceapi.ResourceSlice
	for i := range in.Slices {
		all = append(all, &in.Slices[i])
	}
	if len(in.Rules) > 0 { // the tracker needs a client
		all = slices.Collect(maps.Values(tracked(t, in.Slices, in.Rules)))
	}
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	var claims []*resourceapi.ResourceClaim
	for i := range in.Claims {
		claim := &in.Claims[i]
		if claim.Status.Allocation == nil {
			claims = append(claims, claim)
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID == nil:
				state.AllocatedDevices.Insert(id)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
	cache := cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: in.Features.ConsumableCapacity, EnableListTypeAttributes: in.Features.ListTypeAttributes,
	})
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, in.Features, state, in.View().Classes, all, cache)
	must.NoError(t, err)
	for i := range in.Nodes {
		results, err := allocator.Allocate(ctx, &in.Nodes[i], claims)
		if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
			return false // the scheduler gives up on the pod
		}
		if err == nil && len(results) == len(claims) {
			return true
		}
	}
	return false
}

// why reports whether this package thinks so.
func (in *input) why(t *testing.T) (bool, *why.Answer) {
	t.Helper()
	answer, err := why.Explain(context.Background(), &in.Cluster, why.Question{Pod: in.Pod})
	must.NoError(t, err)
	return answer.Verdict == why.VerdictSchedulable, answer
}

// inputRow is one thing that the scheduler looks at: a row of testdata/input/rows.yaml.
type inputRow struct {
	Name string
	// Fields are those of the API or of the allocator's parameters that it is about.
	Fields []string
	// With the patches of Waits, the pod must wait. With those of Fits on top, it must be scheduled; there may be none.
	Waits, Fits patch.Patches
	// Feature is a feature that must be on. It must change an answer of the allocator.
	Feature string
	// Beside is set where other parts of the scheduler look at it, and not the allocator.
	Beside bool
	// Noted is set where the verdict stays the same, and only the text of the answer changes.
	Noted bool
	// Says is what the answer must name.
	Says string
}

func inputRows(t *testing.T) (rows []inputRow) {
	t.Helper()
	patch.File(t, "testdata/input/rows.yaml", &rows)
	return rows
}

// feature switches the feature of the row.
func (r *inputRow) feature(in *input, on bool) {
	if r.Feature != "" {
		reflect.ValueOf(&in.Features).Elem().FieldByName(r.Feature).SetBool(on)
	}
}

// alternative makes of the first request a list of alternatives with one entry.
func (in *input) alternative() {
	r := &in.Claims[0].Spec.Devices.Requests[0]
	e := r.Exactly
	r.Exactly, r.FirstAvailable = nil, []resourceapi.DeviceSubRequest{{
		Name: "first", DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode,
		Count: e.Count, Tolerations: e.Tolerations, Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
	}}
}

// TestInput: kubectl rdma why looks at everything at which the scheduler of Kubernetes 1.37 looks. Each row changes one
// thing that decides: the scheduler's allocator, given what its plugin gives to it, and this package must agree.
func TestInput(t *testing.T) {
	for _, r := range inputRows(t) {
		t.Run(r.Name, func(t *testing.T) {
			r.check(t, false)
			exactly := slices.ContainsFunc(r.Fields, func(f string) bool { return strings.HasPrefix(f, "ExactDeviceRequest.") })
			if exactly && !slices.Contains(r.Fields, "ExactDeviceRequest.AdminAccess") {
				r.check(t, true) // an alternative has the same fields
			}
		})
	}
}

func (r *inputRow) check(t *testing.T, alternative bool) {
	t.Helper()
	matters := r.Feature == ""
	for _, want := range []bool{false, true} {
		if want && r.Fits == nil {
			continue
		}
		in := newInput(t, r.Waits)
		if want {
			in = newInput(t, r.Waits, r.Fits)
		}
		if r.feature(in, true); alternative {
			in.alternative()
		}
		if !r.Beside && in.scheduler(t) != want {
			t.Fatalf("alternative %t: the scheduler can serve the pod: %t, want %t", alternative, !want, want)
		}
		got, answer := in.why(t)
		var text strings.Builder
		must.NoError(t, answer.WriteText(&text, true))
		named := r.Says != "" && strings.Contains(text.String(), r.Says)
		if got != (want || r.Noted) || named != (!want && r.Says != "") {
			t.Errorf("alternative %t: schedulable is %t, want %t and %q:\n%s", alternative, got, want, r.Says, &text)
		}
		if r.Feature != "" {
			r.feature(in, false)
			matters = matters || in.scheduler(t) != want
		}
	}
	test.True(t, matters, test.Sprint("the feature changes nothing"))
}

// inputTypes have all that the allocator gets.
var inputTypes = []reflect.Type{
	reflect.TypeFor[resourceapi.ResourceSliceSpec](), reflect.TypeFor[resourceapi.ResourceClaimSpec](),
	reflect.TypeFor[resourceapi.ResourceClaimStatus](), reflect.TypeFor[resourceapi.DeviceClassSpec](),
	reflect.TypeFor[resourceapi.DeviceTaintRuleSpec](), reflect.TypeFor[structured.Features](),
	reflect.TypeFor[structured.AllocatedState](),
}

// TestInputFields: each field of the input is in a row, or has a reason why it decides nothing. A new field of the
// library fails here: look at what the scheduler does with it, and add a row.
func TestInputFields(t *testing.T) {
	want := sets.Set[string]{}
	for _, root := range inputTypes {
		addFields(want, root)
	}
	got := sets.Set[string]{}
	for _, r := range inputRows(t) {
		got.Insert(r.Fields...)
	}
	decidesNothing := map[string]string{}
	patch.File(t, "testdata/input/decides-nothing.yaml", &decidesNothing)
	for field, reason := range decidesNothing {
		if got.Has(field) || reason == "" {
			t.Errorf("%s has a row, or no reason", field)
		}
		got.Insert(field)
	}
	// Those of an alternative are those of a request: see check.
	for _, field := range got.UnsortedList() {
		if name, ok := strings.CutPrefix(field, "ExactDeviceRequest."); ok && want.Has("DeviceSubRequest."+name) {
			got.Insert("DeviceSubRequest." + name)
		}
	}
	for _, field := range sets.List(want.Difference(got)) {
		t.Errorf("%s: no row says what it decides", field)
	}
	for _, field := range sets.List(got.Difference(want)) {
		t.Errorf("%s: no such field", field)
	}
}

// addFields adds the fields of a type, and of the types of the same package in them.
func addFields(to sets.Set[string], typ reflect.Type) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
		typ = typ.Elem()
	}
	path := typ.PkgPath()
	if typ.Kind() != reflect.Struct || path != inputTypes[0].PkgPath() && !strings.Contains(path, "/structured/") {
		return
	}
	for field := range typ.Fields() {
		name := typ.Name() + "." + field.Name
		if !field.Anonymous && !to.Has(name) {
			to.Insert(name)
			addFields(to, field.Type)
		} else if field.Anonymous {
			addFields(to, field.Type)
		}
	}
}

// denied returns the input after some patches, without the kinds of object that a user may not list.
func denied(t *testing.T, c patch.Patches, kinds ...model.Kind) *input {
	in := newInput(t, c)
	in.Now = time.Unix(1_700_000_000, 0)
	for _, kind := range kinds {
		in.Unread = append(in.Unread, model.Unread{Kind: kind, Why: string(kind) + " is forbidden"})
		switch kind {
		case model.Classes:
			in.Classes = nil
		case model.Slices:
			in.Slices = nil
		case model.Nodes:
			in.Nodes = nil
		case model.OwnClaims:
			in.Claims = nil
		case model.Claims:
			in.Claims = slices.DeleteFunc(in.Claims, func(c resourceapi.ResourceClaim) bool { return c.Namespace == "other" })
		}
	}
	return in
}

// TestDenied: whatever kinds of object a user may not list, nobody says of what is there that it is not, and nobody says
// "fits" or "free" of what is taken.
func TestDenied(t *testing.T) {
	absent := regexp.MustCompile(`not exist|no DeviceClass|no driver|there are no|selects none|no node offers|No taint|No event|` +
		`Missing|NothingPublished|install|asks for no device|: it has its devices|nothing is known`)
	var pods struct{ Claims, Extended patch.Patches }
	patch.File(t, "testdata/input/denied.yaml", &pods)
	kinds := []model.Kind{
		model.Classes, model.Slices, model.Nodes, model.Claims, model.OwnClaims, model.Rules, model.Pods, model.NodeEvents,
	}
	for set := 1; set < 1<<len(kinds); set++ {
		var none []model.Kind
		for i, kind := range kinds {
			if set&(1<<i) != 0 {
				none = append(none, kind)
			}
		}
		own, all, slice := set&(1<<4) != 0, set&(1<<3) != 0, set&(1<<1) != 0
		if own && !all {
			continue // who may list all may list those of a namespace
		}
		for _, said := range []string{
			whySays(t, denied(t, pods.Claims, none...), nil), whySays(t, denied(t, pods.Extended, none...), nil),
			whySays(t, denied(t, pods.Claims, none...), &why.Planned{}), statusSays(denied(t, pods.Claims, none...), own),
			devicesSay(t, denied(t, pods.Claims, none...), slice),
		} {
			found := absent.FindString(said)
			known := map[string]bool{"Missing": set&(1<<6) == 0, "No event": set&(1<<7) == 0, "No taint": set&(1<<5) == 0}
			if found != "" && !known[found] {
				t.Errorf("without %q somebody says %q:\n%s", none, found, said)
			}
			if good := regexp.MustCompile(`could be had|claims fit[^:]|Free`).FindString(said); good != "" &&
				!strings.Contains(said, "as far as can be seen without") {
				t.Errorf("without %q somebody says %q:\n%s", none, good, said)
			}
		}
	}
}

func whySays(t *testing.T, in *input, planned *why.Planned) string {
	t.Helper()
	a, err := why.Explain(t.Context(), &in.Cluster, why.Question{Pod: in.Pod, Planned: planned})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := a.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// statusSays is what status says of the pod, which it cannot without the claims of its namespace.
func statusSays(in *input, without bool) string {
	if without {
		return ""
	}
	in.UserPods, in.Templates = []corev1.Pod{in.Pod}, []resourceapi.ResourceClaimTemplate{}
	pods := lists.Pods(context.Background(), &in.Cluster)
	var text strings.Builder
	_ = lists.FleetOf(&in.Cluster, pods).WriteText(&text)
	return fmt.Sprint(pods, text.String())
}

// devicesSay is what the lists of nodes and devices say, and what is said of the device.
func devicesSay(t *testing.T, in *input, without bool) string {
	t.Helper()
	nodes, err := lists.Nodes(t.Context(), &in.Cluster, "node")
	if err != nil {
		t.Fatal(err)
	}
	text := new(strings.Builder)
	fmt.Fprintln(text, lists.NodeTable(nodes).Rows)
	if without {
		return text.String()
	}
	list, err := lists.Devices(t.Context(), &in.Cluster, lists.DeviceFilter{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(text, lists.DeviceTable(list).Rows)
	history, err := lists.History(t.Context(), &in.Cluster, "node", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := history.WriteText(text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
