package inspect

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const inputDriver = "d.example.com"

// input is what the scheduler knows of a pod and its cluster.
type input struct {
	Cluster
	pod      corev1.Pod
	features structured.Features
}

// Parts of the input that rows change.
func (in *input) spec() *resourceapi.ResourceSliceSpec { return &in.Slices[0].Spec }
func (in *input) device(i int) *resourceapi.Device     { return &in.Slices[0].Spec.Devices[i] }
func (in *input) claim() *resourceapi.DeviceClaim      { return &in.Claims[0].Spec.Devices }
func (in *input) request() *resourceapi.ExactDeviceRequest {
	return in.Claims[0].Spec.Devices.Requests[0].Exactly
}

// newInput returns a node with two devices and a pod whose claim requests both. They can be had. So each device that
// anything keeps away decides.
func newInput() *input {
	in := &input{features: structured.Features{ // those that are on in Kubernetes 1.37
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
	}}
	in.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "a"}}}}
	in.Slices = []resourceapi.ResourceSlice{newSlice("slice", newDevice("a", 0), newDevice("b", 1))}
	in.Classes = []resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "class"}}}
	in.Classes[0].Spec.Selectors = celSelector(`device.driver == "` + inputDriver + `"`)
	in.Claims = []resourceapi.ResourceClaim{newClaim("claim")}
	in.Claims[0].Spec.Devices.Requests = []resourceapi.DeviceRequest{newRequest("request", 2)}
	in.pod = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	in.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "claim", ResourceClaimName: new("claim")}}
	return in
}

func newSlice(name string, devices ...resourceapi.Device) resourceapi.ResourceSlice {
	s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.NodeName, s.Spec.Devices = inputDriver, new("node"), devices
	s.Spec.Pool = resourceapi.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1}
	return s
}

func newDevice(name string, index int64) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"index": {IntValue: &index}, "group": {StringValue: new("same")},
	}}
}

func newClaim(name string) resourceapi.ResourceClaim {
	c := resourceapi.ResourceClaim{}
	c.Namespace, c.Name, c.UID = "default", name, "uid-of-claim"
	return c
}

func newRequest(name string, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "class", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

func celSelector(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// holds adds a claim of another pod that has a device.
func (in *input) holds(device string) *resourceapi.DeviceRequestAllocationResult {
	other := newClaim("other")
	other.UID = "uid-of-other"
	other.Status.Allocation = &resourceapi.AllocationResult{}
	other.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{
		Request: "request", Driver: inputDriver, Pool: "pool", Device: device,
	}}
	in.Claims = append(in.Claims, other)
	return &in.Claims[len(in.Claims)-1].Status.Allocation.Devices.Results[0]
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
	byName := classes{}
	for i := range in.Classes {
		byName[in.Classes[i].Name] = &in.Classes[i]
	}
	cache := cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: in.features.ConsumableCapacity, EnableListTypeAttributes: in.features.ListTypeAttributes,
	})
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, in.features, state, byName, all, cache)
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
func (in *input) why(t *testing.T) (bool, *Answer) {
	t.Helper()
	answer, err := in.Why(context.Background(), Question{Pod: in.pod})
	must.NoError(t, err)
	return answer.Verdict == VerdictSchedulable, answer
}

// inputRow is one thing that the scheduler looks at.
type inputRow struct {
	name   string
	fields string // of the API or of the allocator's parameters that it is in
	// With no, the pod must wait, and with yes behind it the pod must be scheduled. yes may be nil.
	no, yes func(*input)
	// feature switches on a feature. It must change an answer of the allocator.
	feature func(*structured.Features) *bool
	// beside is set where other parts of the scheduler look at it, and not the allocator.
	beside bool
	// noted is set where the verdict stays the same, and only the text of the answer changes.
	noted bool
	// says is what the answer must name.
	says string
}

func (r *inputRow) changed(alternative bool, changes ...func(*input)) *input {
	in := newInput()
	for _, change := range changes {
		if change != nil {
			change(in)
		}
	}
	if r.feature != nil {
		*r.feature(&in.features) = true
	}
	if alternative {
		in.alternative()
	}
	return in
}

// alternative makes of the first request a list of alternatives with one entry.
func (in *input) alternative() {
	r := &in.claim().Requests[0]
	e := r.Exactly
	r.Exactly, r.FirstAvailable = nil, []resourceapi.DeviceSubRequest{{
		Name: "first", DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode,
		Count: e.Count, Tolerations: e.Tolerations, Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
	}}
}

// TestInput: kubectl rdma why looks at everything at which the scheduler of Kubernetes 1.37 looks. Each row changes one
// thing that decides: the scheduler's allocator, given what its plugin gives to it, and this package must agree.
func TestInput(t *testing.T) {
	for _, r := range inputRows {
		t.Run(r.name, func(t *testing.T) {
			r.check(t, false)
			if strings.Contains(r.fields, "ExactDeviceRequest.") && !strings.Contains(r.fields, "AdminAccess") {
				r.check(t, true) // an alternative has the same fields
			}
		})
	}
}

func (r *inputRow) check(t *testing.T, alternative bool) {
	t.Helper()
	matters := r.feature == nil
	for _, c := range []struct {
		in   *input
		want bool
	}{{r.changed(alternative, r.no), false}, {r.changed(alternative, r.no, r.yes), true}} {
		if c.want && r.yes == nil {
			continue
		}
		if !r.beside && c.in.scheduler(t) != c.want {
			t.Fatalf("alternative %t: the scheduler can serve the pod: %t, want %t", alternative, !c.want, c.want)
		}
		got, answer := c.in.why(t)
		var text strings.Builder
		must.NoError(t, answer.WriteText(&text, true))
		named := r.says != "" && strings.Contains(text.String(), r.says)
		if got != (c.want || r.noted) || named != (!c.want && r.says != "") {
			t.Errorf("alternative %t: schedulable is %t, want %t and %q:\n%s", alternative, got, c.want, r.says, &text)
		}
		if r.feature != nil {
			*r.feature(&c.in.features) = false
			matters = matters || c.in.scheduler(t) != c.want
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
	for _, r := range inputRows {
		got.Insert(strings.Fields(r.fields)...)
	}
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

// TestExtendedOfDevicePlugin: a pod on a node with a device plugin has its extended resource from there, whatever a
// DeviceClass offers on other nodes.
func TestExtendedOfDevicePlugin(t *testing.T) {
	in := newInput()
	in.onlyExtended("0", "2")
	in.Nodes[0].Status.Allocatable = corev1.ResourceList{"example.com/nic": *quantity("2")}
	in.Nodes = append(in.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "without"}})
	in.pod.Spec.NodeName = "node"
	if _, answer := in.why(t); answer.Verdict != VerdictNoClaims {
		t.Errorf("verdict %s (%s), want %s", answer.Verdict, answer.Summary, VerdictNoClaims)
	}
}

// TestIsExtended: the names are those of TestIsExtendedResourceName in pkg/apis/core/v1/helper of Kubernetes, and a
// class's own.
func TestIsExtended(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"pod.alpha.kubernetes.io/opaque-int-resource-foo": false, "kubernetes.io/resource-foo": false, "foo": false, "a/b": true,
		"requests.foo/bar": false, "mykubernetes.io/foo": false, "rdma/hca": true, "9a/b c": false,
		"deviceclass.resource.kubernetes.io/hca.rdma.dev": true,
	} {
		if isExtended(name) != want {
			t.Errorf("%s is an extended resource: %t, want %t", name, !want, want)
		}
	}
}

// TestEvicts: the rows are those of TestDrain in test/cluster/e2e/plugin, beside the controller that evicts.
func TestEvicts(t *testing.T) {
	any := resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists}
	execute := any
	execute.Effect = resourceapi.DeviceTaintEffectNoExecute
	schedule := any
	schedule.Effect = resourceapi.DeviceTaintEffectNoSchedule
	seconds := func(n int64) resourceapi.DeviceToleration { t := execute; t.TolerationSeconds = &n; return t }
	for _, tc := range []struct {
		tolerations []resourceapi.DeviceToleration
		after       time.Duration
		ends        bool
	}{
		{nil, 0, true}, {[]resourceapi.DeviceToleration{execute}, 0, false}, {[]resourceapi.DeviceToleration{any, schedule}, 0, true},
		{[]resourceapi.DeviceToleration{seconds(7200), any, seconds(3600)}, time.Hour, true},
		{[]resourceapi.DeviceToleration{seconds(-1), seconds(60)}, 0, true},
		{[]resourceapi.DeviceToleration{seconds(-1), execute}, 0, false},
	} {
		taint := &resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute}
		if after, ends := evicts(taint, tc.tolerations); after != tc.after || ends != tc.ends {
			t.Errorf("%+v: after %v, %t; want %v, %t", tc.tolerations, after, ends, tc.after, tc.ends)
		}
		taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
		if _, ends := evicts(taint, tc.tolerations); ends {
			t.Errorf("%+v: NoSchedule evicts", tc.tolerations)
		}
	}
}

// denied returns a node with one HCA, which a claim of another namespace has, and a pod that wants it, without the kinds
// of object that a user may not list.
func denied(extended bool, kinds ...Kind) *input {
	in := newInput()
	in.Now = time.Unix(1_700_000_000, 0)
	in.spec().Driver, in.spec().Devices, in.request().Count = driver, in.spec().Devices[:1], 1
	in.Classes[0].Spec.Selectors = celSelector(`device.driver == "` + driver + `"`)
	if extended {
		in.onlyExtended("0", "1")
	}
	in.holds("a").Driver = driver
	in.Claims[len(in.Claims)-1].Namespace = "other"
	for _, kind := range kinds {
		in.Unread = append(in.Unread, Unread{kind, string(kind) + " is forbidden"})
		switch kind {
		case Classes:
			in.Classes = nil
		case Slices:
			in.Slices = nil
		case Nodes:
			in.Nodes = nil
		case OwnClaims:
			in.Claims = nil
		case Claims:
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
	kinds := []Kind{Classes, Slices, Nodes, Claims, OwnClaims, Rules, Pods, NodeEvents}
	for set := 1; set < 1<<len(kinds); set++ {
		var none []Kind
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
			whySays(t, denied(false, none...), nil), whySays(t, denied(true, none...), nil),
			whySays(t, denied(false, none...), &Planned{}), statusSays(denied(false, none...), own),
			devicesSay(t, denied(false, none...), slice),
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

func whySays(t *testing.T, in *input, planned *Planned) string {
	t.Helper()
	a, err := in.Why(t.Context(), Question{Pod: in.pod, Planned: planned})
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
	in.UserPods, in.Templates = []corev1.Pod{in.pod}, []resourceapi.ResourceClaimTemplate{}
	pods := in.ListPods(context.Background())
	var text strings.Builder
	_ = in.Fleet(pods).WriteText(&text)
	return fmt.Sprint(pods, text.String())
}

// devicesSay is what the lists of nodes and devices say, and what is said of the device.
func devicesSay(t *testing.T, in *input, without bool) string {
	t.Helper()
	nodes, err := in.ListNodes(t.Context(), "node")
	if err != nil {
		t.Fatal(err)
	}
	text := new(strings.Builder)
	fmt.Fprintln(text, NodeTable(nodes).Rows)
	if without {
		return text.String()
	}
	list, err := in.ListDevices(t.Context(), DeviceFilter{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(text, DeviceTable(list).Rows)
	history, err := in.History(t.Context(), "node", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := history.WriteText(text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
