package publisher_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// owned waits until this is published as one whole pool, and the Node of that UID owns it. It stays so: the collector of
// the API server deletes slices of another owner at once.
func (r *running) owned(t *testing.T, uid string, want ...string) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		for _, s := range r.api.Slices() {
			if len(s.OwnerReferences) != 1 || string(s.OwnerReferences[0].UID) != uid {
				return fmt.Errorf("slice %s has the owners %v", s.Name, s.OwnerReferences)
			}
		}
		if r.Loss() != nil {
			return fmt.Errorf("the publisher says that it is not published: %v", r.Loss().Cause)
		}
		return wholePool(r.api.Slices(), want...)
	})
}

// told waits for the end of a loss, which is reported once, and returns its cause.
func (r *running) told(t *testing.T) string {
	t.Helper()
	var all []publisher.Loss
	drivertest.Eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if all = slices.Clone(r.losses); len(all) == 0 {
			return errors.New("no loss was reported")
		}
		return nil
	})
	must.True(t, len(all) == 1 && all[0].Over && !all[0].Told,
		must.Sprintf("reported: %+v, want the end of one", all))
	return all[0].Cause.Error()
}

// TestNodeCreatedAnew: the slices that go with a Node come back with the next one, which owns them, also those that were
// not deleted yet. This is said once.
func TestNodeCreatedAnew(t *testing.T) {
	r := start(t, drivertest.NewAPI(t))
	r.Publish(pool("a", "b", "c"))
	r.await(t, "1: a", "1: b", "1: c")
	reads := r.api.Count(drivertest.GetNode)
	r.api.RecreateNode("another")
	r.owned(t, "another", "a", "b", "c")
	test.StrContains(t, r.told(t), "created anew (UID another, before 6a1e2c9a", test.Sprint("the cause"))
	test.NotEq(t, 0, r.replaced.Load(), test.Sprint("it was not said that the Node is another"))
	test.LessEq(t, 3, r.api.Count(drivertest.GetNode)-reads, test.Sprint("the Node was read"))
}

// TestNodeGone: without a Node nothing is published, and the loss has the reason. The next Node gets the slices.
func TestNodeGone(t *testing.T) {
	r := start(t, drivertest.NewAPI(t))
	r.Publish(pool("a", "b"))
	r.await(t, "1: a", "1: b")
	r.api.RemoveNode()
	drivertest.Eventually(t, func() error {
		l := r.Loss()
		if l == nil || !strings.Contains(l.Cause.Error(), "the Node object does not exist") {
			return fmt.Errorf("the loss is %+v", l)
		}
		return nil
	})
	if got := r.api.Slices(); len(got) != 0 || len(r.Has()) != 0 {
		t.Errorf("published is %v, and the publisher says %v", describe(got), r.Has())
	}
	r.api.RecreateNode("another")
	r.owned(t, "another", "a", "b")
	test.StrContains(t, r.told(t), "created anew", test.Sprint("the cause"))
	got := r.Has()
	test.True(t, len(got) == 2 && got["a"] && got["b"],
		test.Sprintf("the publisher says that these are published: %v", got))
}

// TestOwnerOfSomebodyElse: an answer that is not from the API server has no UID of the Node, or that of something else.
// No slice gets such an owner, and the Node is not taken for gone. When the API server answers, all is published.
func TestOwnerOfSomebodyElse(t *testing.T) {
	for _, tc := range apifault.Answers {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			api := drivertest.NewAPI(t)
			proxy := apifault.New(t, api.Config())
			client, err := kubernetes.NewForConfig(proxy.Config())
			must.NoError(t, err)
			shot := proxy.Arm(apifault.Fault{N: 1, Match: aboutNodes, Do: tc.Do, Lasting: true})
			r := asking(api, client)
			r.run(t)
			r.Publish(pool("a", "b"))
			drivertest.Eventually(t, func() error {
				if got := r.errors(); len(got) == 0 || !strings.Contains(got[0].Error(), "which is to own the slices") {
					return fmt.Errorf("reported is %v", got)
				}
				return nil
			})
			l := r.Loss()
			test.True(t, api.Writes() == 0 && l != nil &&
				!strings.Contains(l.Cause.Error(), "the Node object does not exist"),
				test.Sprintf("%d writes, and the loss is %+v", api.Writes(), l))
			shot.Disarm()
			r.owned(t, "6a1e2c9a-0000-4000-8000-00000000000a", "a", "b")
		})
	}
}

func aboutNodes(r *http.Request) bool { return strings.Contains(r.URL.Path, "/nodes/") }

// TestRestoredBackup: an API server with the data of a backup gets the wanted slices again, whatever its watch reports.
// The publisher reports that once.
func TestRestoredBackup(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after []string // published before and after the backup
		replaced      bool     // the Node is created anew after the backup
		later         int      // revisions after the restoration
	}{
		{"of before the slices", nil, []string{"a", "b"}, false, 0},
		{"of other devices", []string{"a"}, []string{"a", "b"}, false, 0},
		{"of a taint", []string{"a", "b"}, []string{"a!", "b"}, false, 0},
		{"of the former Node", []string{"a", "b"}, []string{"a", "b"}, true, 0},
		{"whose revision is later than before", []string{"a"}, []string{"a", "b"}, false, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api := drivertest.NewAPI(t)
			r := prepare(t, api)
			r.ListEvery(50 * time.Millisecond)
			r.run(t)
			uid := "6a1e2c9a-0000-4000-8000-00000000000a"
			if tc.before != nil {
				r.Publish(pool(tc.before...))
				r.owned(t, uid, tc.before...)
			}
			restore := api.Backup()
			if tc.replaced {
				api.RecreateNode("another")
				r.owned(t, "another", tc.before...)
				r.told(t)
				r.forgetLosses()
			}
			r.Publish(pool(tc.after...))
			drivertest.Eventually(t, func() error { return wholePool(api.Slices(), tc.after...) })
			lists := api.Count(drivertest.ListSlices)
			drivertest.Eventually(t, func() error { // it knows the revision
				if n := api.Count(drivertest.ListSlices) - lists; n < 2 {
					return fmt.Errorf("%d lists", n)
				}
				return nil
			})
			restore(tc.later)
			drivertest.Eventually(t, func() error {
				r.mu.Lock()
				n := len(r.losses)
				r.mu.Unlock()
				if n == 0 {
					return errors.New("no loss was reported")
				}
				return nil
			})
			r.owned(t, uid, tc.after...)
			test.StrContains(t, r.told(t), "restoration of a backup", test.Sprint("the cause"))
		})
	}
}

// TestQuiet: a list that agrees with the watch writes nothing, and reports nothing.
func TestQuiet(t *testing.T) {
	api := drivertest.NewAPI(t)
	r := prepare(t, api)
	r.ListEvery(time.Millisecond)
	r.run(t)
	r.Publish(pool("a", "b"))
	r.await(t, "1: a", "1: b")
	writes, watches := api.Writes(), api.Count(drivertest.WatchSlices)
	drivertest.Eventually(t, func() error {
		if n := api.Count(drivertest.ListSlices); n < 20 {
			return fmt.Errorf("%d lists", n)
		}
		return nil
	})
	r.stop()
	n := api.Writes() - writes
	test.True(t, n == 0 && len(r.losses) == 0 && api.Count(drivertest.WatchSlices) == watches,
		test.Sprintf("%d writes, reported %+v, requests %v", n, r.losses, api.Requests()))
}

// TestLibraryKeepsNodeUID: the library's controller gives new slices the UID of the former Node
// (docs/dev/upstream-node-uid-kept.md). If this fails, the library is repaired, and the report has done its work.
func TestLibraryKeepsNodeUID(t *testing.T) {
	api := drivertest.NewAPI(t)
	library, err := resourceslice.StartController(t.Context(), resourceslice.Options{
		DriverName: driver, KubeClient: api.Client(t), SyncDelay: new(time.Duration(0)),
		Owner:     &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: drivertest.NodeName},
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{drivertest.NodeName: {Slices: pool("a")}}},
	})
	must.NoError(t, err)
	defer library.Stop()
	drivertest.Eventually(t, func() error { return wholePool(api.Slices(), "a") })
	created := api.Count(drivertest.CreateSlice)
	api.RecreateNode("another")
	drivertest.Eventually(t, func() error {
		if n := api.Count(drivertest.CreateSlice) - created; n < 3 {
			return fmt.Errorf("the slice was created %d times again", n)
		}
		return nil
	})
	library.Stop()
	got := api.Slices()
	test.Len(t, 0, got, test.Sprintf("published is %v: the library reads the Node again", describe(got)))
}
