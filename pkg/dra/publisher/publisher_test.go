package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

const driver = "rdma.dev"

// running is a publisher at work.
type running struct {
	*publisher.Publisher
	api  *drivertest.API
	stop func()

	mu       sync.Mutex
	reported []error
	losses   []publisher.Loss
	stored   atomic.Int32
	replaced atomic.Int32
}

func start(t *testing.T, api *drivertest.API) *running {
	t.Helper()
	r := prepare(t, api)
	r.run(t)
	return r
}

// prepare returns a publisher that does not run yet.
func prepare(t *testing.T, api *drivertest.API) *running {
	t.Helper()
	return asking(api, api.Client(t))
}

// asking returns a publisher that meets the API server by a client, and does not run yet.
func asking(api *drivertest.API, client kubernetes.Interface) *running {
	r := &running{api: api}
	r.Publisher = publisher.New(publisher.Config{
		Client: client, Driver: driver, Node: drivertest.NodeName, Report: r.report, Stored: func() { r.stored.Add(1) },
		Lost: r.lost, NodeReplaced: func() { r.replaced.Add(1) },
	})
	return r
}

func (r *running) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
}

func (r *running) lost(_ context.Context, l publisher.Loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, l)
}

func (r *running) forgetLosses() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = nil
}

func (r *running) report(_ context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = append(r.reported, err)
}

func (r *running) errors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reported)
}

// pool makes slices of devices: "a b!" is one with two, the second with a taint.
func pool(texts ...string) []resourceslice.Slice {
	var out []resourceslice.Slice
	for _, text := range texts {
		var s resourceslice.Slice
		for _, name := range strings.Fields(text) {
			d := resourceapi.Device{Name: strings.TrimSuffix(name, "!")}
			if d.Name != name {
				d.Taints = []resourceapi.DeviceTaint{{Key: "rdma.dev/port-down", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			}
			s.Devices = append(s.Devices, d)
		}
		out = append(out, s)
	}
	return out
}

// describe writes what is published like the texts of pool, with the generation.
func describe(published []resourceapi.ResourceSlice) []string {
	var out []string
	for _, s := range published {
		var names []string
		for _, d := range s.Spec.Devices {
			names = append(names, d.Name+strings.Repeat("!", len(d.Taints)))
		}
		out = append(out, fmt.Sprintf("%d: %s", s.Spec.Pool.Generation, strings.Join(names, " ")))
	}
	return out
}

// await waits until just this is published, as one whole pool.
func (r *running) await(t *testing.T, want ...string) []resourceapi.ResourceSlice {
	t.Helper()
	var now []resourceapi.ResourceSlice
	drivertest.Eventually(t, func() error {
		now = r.api.Slices()
		if diff := cmp.Diff(want, describe(now)); diff != "" {
			return fmt.Errorf("published (-want +got):\n%s\nreported: %v", diff, r.errors())
		}
		return nil
	})
	for _, s := range now {
		test.True(t, s.Spec.Pool.ResourceSliceCount == int64(len(now)) &&
			s.Spec.Pool.Name == drivertest.NodeName,
			test.Sprintf("slice %s says that its pool is %+v", s.Name, s.Spec.Pool))
	}
	return now
}

// TestChanges: what is written for a change, and whether it makes a new generation.
func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after []string
		want          []string
		writes        int
	}{
		{"nothing", []string{"a b", "c"}, []string{"a b", "c"}, []string{"1: a b", "1: c"}, 0},
		{"a taint", []string{"a b", "c"}, []string{"a! b", "c"}, []string{"1: a! b", "1: c"}, 1},
		{"taints of a card in two slices", []string{"a b", "c", "d"}, []string{"a! b", "c!", "d"}, []string{"1: a! b", "1: c!", "1: d"}, 2},
		{"a device of one slice", []string{"a b", "c"}, []string{"a", "c"}, []string{"1: a", "1: c"}, 1},
		{"a device moves", []string{"a b", "c", "d"}, []string{"a", "b c", "d"}, []string{"2: a", "2: b c", "2: d"}, 3},
		{"one more slice", []string{"a"}, []string{"a", "b"}, []string{"2: a", "2: b"}, 2},
		{"one slice less", []string{"a", "b", "c"}, []string{"a", "b"}, []string{"2: a", "2: b"}, 3},
		{"nothing is left", []string{"a", "b"}, nil, nil, 2},
		{"nothing, and then something", nil, []string{"a"}, []string{"1: a"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, drivertest.NewAPI(t))
			r.Publish(pool(tc.before...))
			var first []string
			for _, text := range tc.before {
				first = append(first, "1: "+text)
			}
			r.await(t, first...)
			writes := r.api.Writes()
			r.Publish(pool(tc.after...))
			r.await(t, tc.want...)
			r.stop()
			if got := r.api.Writes() - writes; got != tc.writes {
				t.Errorf("%d writes, want %d: %v", got, tc.writes, r.api.Requests())
			}
		})
	}
}

// TestStored: who waits for the first slices hears of them once, and not before they are there.
func TestStored(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.Fail(drivertest.CreateSlice, http.StatusInternalServerError)
	r := start(t, api)
	r.Publish(pool("a", "b"))
	drivertest.Eventually(t, func() error {
		if len(r.errors()) == 0 {
			return errors.New("nothing has failed")
		}
		return nil
	})
	test.Eq(t, 0, r.stored.Load(), test.Sprint("told"))
	api.Fail(drivertest.CreateSlice, 0)
	r.await(t, "1: a", "1: b")
	r.Publish(pool("a!", "b"))
	r.await(t, "1: a!", "1: b")
	r.stop()
	test.Eq(t, 1, r.stored.Load(), test.Sprint("told"))
}

// TestRestored: what others delete or change is put right, in whatever generation.
func TestRestored(t *testing.T) {
	api := drivertest.NewAPI(t)
	r := start(t, api)
	r.Publish(pool("a", "b", "c!"))
	now := r.await(t, "1: a", "1: b", "1: c!")
	client := api.Client(t).ResourceV1().ResourceSlices()
	foreign := now[0].DeepCopy()
	foreign.Name, foreign.ResourceVersion, foreign.Spec.Pool.Name = "00000-another", "", "another"
	for _, disturb := range []func() error{
		func() error { api.WipeSlices(); return nil },
		func() error { return client.Delete(t.Context(), api.Slices()[1].Name, metav1.DeleteOptions{}) },
		func() error {
			s := api.Slices()[0]
			s.Spec.Devices[0].Name = "changed"
			_, err := client.Update(t.Context(), &s, metav1.UpdateOptions{})
			return err
		},
		func() error {
			_, err := client.Create(t.Context(), foreign, metav1.CreateOptions{})
			return err
		},
	} {
		must.NoError(t, disturb())
		drivertest.Eventually(t, func() error { return wholePool(api.Slices(), "a", "b", "c!") })
	}
}

// TestAbsurdGeneration: a generation that leaves no room for a newer one, whoever wrote it and into whichever slice of the
// pool, does not stop the publisher: the pool is whole again, and what changes next is published.
func TestAbsurdGeneration(t *testing.T) {
	for _, tc := range []struct {
		name       string
		slice      string // to be created; "" changes the first slice of the publisher
		generation int64
	}{
		{"a slice of no index", "poison", math.MaxInt64},
		{"a slice of an index in use", "00000-rdma.dev-node-a-poison", math.MaxInt64},
		{"a slice of an index that is not in use", "00009-rdma.dev-node-a-poison", math.MaxInt64},
		{"a slice of the publisher's own", "", math.MaxInt64},
		{"the last generation that counts", "poison", 1<<53 - 1},
		{"the first that does not count", "00000-rdma.dev-node-a-poison", 1 << 53},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api := drivertest.NewAPI(t)
			r := start(t, api)
			r.Publish(pool("a", "b"))
			poison := r.await(t, "1: a", "1: b")[0].DeepCopy()
			poison.Spec.Pool.Generation = tc.generation
			client, err := api.Client(t).ResourceV1().ResourceSlices(), error(nil)
			if tc.slice == "" {
				_, err = client.Update(t.Context(), poison, metav1.UpdateOptions{})
			} else {
				poison.Name, poison.ResourceVersion, poison.UID = tc.slice, "", ""
				_, err = client.Create(t.Context(), poison, metav1.CreateOptions{})
			}
			must.NoError(t, err)
			for _, want := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"a"}} {
				r.Publish(pool(want...))
				drivertest.Eventually(t, func() error {
					if slices.ContainsFunc(api.Slices(), func(s resourceapi.ResourceSlice) bool { return s.Name == tc.slice }) {
						return errors.New("the foreign slice is still there")
					}
					return errors.Join(append(r.errors(), wholePool(api.Slices(), want...))...)
				})
			}
			g := api.Slices()[0].Spec.Pool.Generation
			test.True(t, g >= 1 && g <= 1<<53, test.Sprintf("the pool ends in generation %d", g))
		})
	}
}

// wholePool returns nil if these are the slices of one pool, of one generation.
func wholePool(published []resourceapi.ResourceSlice, want ...string) error {
	var got []string
	for _, text := range describe(published) {
		generation, devices, _ := strings.Cut(text, ": ")
		got = append(got, devices)
		if generation != strconv.FormatInt(published[0].Spec.Pool.Generation, 10) {
			return fmt.Errorf("published are several generations: %v", describe(published))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("published is %v, want %v", got, want)
	}
	return nil
}

// TestTimeAdded: a taint that stays keeps its time whatever else changes.
func TestTimeAdded(t *testing.T) {
	api := drivertest.NewAPI(t)
	r := start(t, api)
	r.Publish(pool("a! b"))
	now := r.await(t, "1: a! b")
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	now[0].Spec.Devices[0].Taints[0].TimeAdded = &since // as a server does
	_, err := api.Client(t).ResourceV1().ResourceSlices().Update(t.Context(), &now[0], metav1.UpdateOptions{})
	must.NoError(t, err)
	drivertest.Eventually(t, func() error { // the publisher may not have seen it yet: then there is a conflict, and another try
		r.Publish(pool("a! b!"))
		if got := describe(api.Slices()); got[0] != "1: a! b!" {
			return fmt.Errorf("published is %v", got)
		}
		return nil
	})
	devices := api.Slices()[0].Spec.Devices
	got := devices[0].Taints[0].TimeAdded
	test.True(t, got != nil && got.Equal(&since), test.Sprintf("the first taint is of %v, want %v", got, since))
	test.Nil(t, devices[1].Taints[0].TimeAdded, test.Sprint("the second taint"))
}

// TestDroppedFields: a server that drops fields is reported once, and not asked again.
func TestDroppedFields(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.GatesOff("DRADeviceTaints")
	r := start(t, api)
	wanted := pool("a!", "b")
	r.Publish(wanted)
	r.await(t, "1: a", "1: b")
	drivertest.Eventually(t, func() error {
		dropped, ok := errors.AsType[*resourceslice.DroppedFieldsError](errors.Join(r.errors()...))
		if !ok || !slices.Equal(dropped.DisabledFeatures(), []string{"DRADeviceTaints"}) {
			return fmt.Errorf("reported: %v", r.errors())
		}
		return nil
	})
	writes := api.Writes()
	r.Publish(append(wanted[:1:1], pool("b c")...))
	r.await(t, "1: a", "1: b c")
	r.stop()
	got := api.Writes() - writes
	test.True(t, got == 1 && len(r.errors()) == 1, test.Sprintf("%d writes and these reports: %v", got, r.errors()))
}

// mutating changes slices on their way to the API server, as a policy or webhook does.
type mutating struct {
	http.RoundTripper
	from, to string
}

func (m mutating) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.ReplaceAll(body, []byte(m.from), []byte(m.to))
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return m.RoundTripper.RoundTrip(r)
}

// TestChangedFields: what a policy adds or changes is reported once with its path, and not as a feature gate. The
// publisher does not fight it.
func TestChangedFields(t *testing.T) {
	const taint = `"key":"rdma.dev/port-down","effect":"NoSchedule"`
	for name, c := range map[string]struct{ from, to, field string }{
		"changed": {`"NoSchedule"`, `"NoExecute"`, "spec.devices[0].taints[0].effect"},
		"added":   {`{"name":"b"}`, `{"name":"b","bindsToNode":true}`, "spec.devices[1].bindsToNode"},
		"one more, where counters may be dropped": {
			`{"name":"b"}`, `{"name":"b","consumesCounters":[{"counterSet":"x"}]}`,
			"spec.devices[1].consumesCounters[0].counterSet",
		},
		"in a list": {
			"{" + taint + "}", "{" + taint + `},{"key":"example.com/a","effect":"None"}`, "spec.devices[0].taints[1].effect",
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := drivertest.NewAPI(t)
			config := api.Config()
			config.ContentType = "application/json" // in which mutating finds its words
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return mutating{rt, c.from, c.to} })
			r := asking(api, kubernetes.NewForConfigOrDie(config))
			r.run(t)
			r.Publish(pool("a! b"))
			drivertest.Eventually(t, func() error {
				changed, ok := errors.AsType[*publisher.ChangedError](errors.Join(r.errors()...))
				if !ok || changed.Field != c.field {
					return fmt.Errorf("reported: %v", r.errors())
				}
				return nil
			})
			r.stop()
			if len(r.errors()) != 1 || api.Writes() != 1 {
				t.Errorf("%d writes and these reports: %v", api.Writes(), r.errors())
			}
		})
	}
}

// TestTrouble: whatever request fails is reported, and tried again.
func TestTrouble(t *testing.T) {
	for _, request := range []string{drivertest.GetNode, drivertest.CreateSlice, drivertest.UpdateSlice, drivertest.DeleteSlice} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			api := drivertest.NewAPI(t)
			r := start(t, api)
			r.Publish(pool("a", "b"))
			if request != drivertest.GetNode && request != drivertest.CreateSlice {
				r.await(t, "1: a", "1: b")
			}
			api.Fail(request, http.StatusForbidden)
			r.Publish(pool("b"))
			drivertest.Eventually(t, func() error {
				if n := len(r.errors()); n < 2 && api.Count(drivertest.CreateSlice) < 2 {
					return fmt.Errorf("%d reports", n)
				}
				return nil
			})
			api.Fail(request, 0)
			drivertest.Eventually(t, func() error {
				if now := api.Slices(); len(now) != 1 || len(now[0].Spec.Devices) != 1 || now[0].Spec.Devices[0].Name != "b" {
					return fmt.Errorf("published is %v", describe(now))
				}
				return nil
			})
		})
	}
}

// TestLikeTheLibrary: a driver that publishes by the library finds what we have published
// as it wants it, and the other way round.
func TestLikeTheLibrary(t *testing.T) {
	api := drivertest.NewAPI(t)
	wanted := pool("a! b", "c", "")
	r := start(t, api)
	r.Publish(wanted)
	before := r.await(t, "1: a! b", "1: c", "1: ")
	r.stop()
	writes := api.Writes()
	library, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: driver, KubeClient: api.Client(t), Owner: &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: drivertest.NodeName},
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{drivertest.NodeName: {Slices: wanted}}},
	})
	must.NoError(t, err)
	defer library.Stop()
	drivertest.Eventually(t, func() error { // it asks for the node just before it compares
		if n := api.Count(drivertest.GetNode); n < 2 {
			return fmt.Errorf("the library asked for the node %d times", n-1)
		}
		return nil
	})
	library.Update(&resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{drivertest.NodeName: {Slices: pool("a! b", "c d", "")}}})
	r.await(t, "1: a! b", "1: c d", "1: ")
	library.Stop()
	test.Eq(t, 1, api.Writes()-writes, test.Sprint("writes"))
	api.WipeSlices()
	writes = api.Writes()
	again, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: driver, KubeClient: api.Client(t), Owner: &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: drivertest.NodeName},
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{drivertest.NodeName: {Slices: wanted}}},
	})
	must.NoError(t, err)
	after := r.await(t, "1: a! b", "1: c", "1: ")
	again.Stop()
	for i := range before {
		diff := cmp.Diff(before[i].OwnerReferences, after[i].OwnerReferences)
		test.True(t, diff == "" && before[i].GenerateName == after[i].GenerateName,
			test.Sprintf("slice %d of the library has another owner or name: %s", i, diff))
	}
	ours := start(t, api)
	ours.Publish(pool("a! b", "c!", ""))
	ours.await(t, "1: a! b", "1: c!", "1: ")
	ours.stop()
	test.Eq(t, len(wanted)+1, api.Writes()-writes, test.Sprint("writes of the library and us"))
}
