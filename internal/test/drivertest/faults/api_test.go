package faults

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// apiFault is a kind of trouble with the API server.
type apiFault struct {
	name  string
	do    func(http.ResponseWriter, *http.Request, http.Handler)
	harms bool     // a call that meets it fails
	says  []string // the error contains one of these
}

var apiFaults = []apiFault{
	{"down", apifault.Down, true, []string{"connection reset", "EOF", "connection refused"}},
	{"hangs", apifault.Hang, true, []string{"context deadline exceeded"}},
	{"slow", apifault.Slow(2 * time.Second), false, nil},
	{"too busy", apifault.Status(http.StatusTooManyRequests), true, []string{"refused by the test"}},
	{"token expired", apifault.Status(http.StatusUnauthorized), true, []string{"refused by the test"}},
	{"forbidden", apifault.Status(http.StatusForbidden), true, []string{"refused by the test"}},
	{"broken", apifault.Status(http.StatusInternalServerError), true, []string{"refused by the test"}},
	{"unavailable", apifault.Status(http.StatusServiceUnavailable), true, []string{"refused by the test"}},
	{"conflict", apifault.Status(http.StatusConflict), true, []string{"refused by the test"}},
	{"generic 404", apifault.Answers[0].Do, true, []string{"the server could not find the requested resource"}},
}

// badAPI is a node whose driver meets its API server through a proxy.
type badAPI struct {
	*drivertest.Node
	*apifault.Proxy
	kubeconfig string
}

func newBadAPI(t testing.TB, machine string) *badAPI {
	t.Helper()
	n := drivertest.NewNode(t, machine)
	proxy := apifault.New(t, n.Config())
	return &badAPI{n, proxy, proxy.Kubeconfig(t, "first")}
}

func (b *badAPI) start(t testing.TB, flags ...string) *drivertest.Process {
	t.Helper()
	return b.Start(t, "", append([]string{"--kubeconfig", b.kubeconfig}, flags...)...)
}

// call asks for one claim, with as much time as a kubelet has.
func (b *badAPI) call(c *resourceapi.ResourceClaim) error {
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	return prepare(ctx, b.Node, c)
}

// TestAPIInPrepare: a Prepare that meets trouble with the API server fails in time and
// says why; what is prepared goes on and is kept in order; the kubelet's next try after
// the trouble succeeds. An Unprepare needs no API server.
func TestAPIInPrepare(t *testing.T) {
	needs.Proof(t, "each fault starts a driver")
	t.Parallel()
	atOnce(t, apiFaults, func(t *testing.T, kind apiFault) {
		b := newBadAPI(t, "hgx-h100")
		b.start(t)
		old, c := drivertest.Claim(1, "pci-0000-19-00-0"), drivertest.Claim(2, "pci-0000-29-00-0")
		b.AddClaim(old, c)
		must.NoError(t, b.call(old))
		shot := b.Arm(apifault.Fault{N: 1, Do: kind.do, Lasting: true})
		began := time.Now()
		err := b.call(c)
		t.Logf("Prepare took %v and made %d requests", time.Since(began).Round(time.Millisecond), len(shot.Seen()))
		test.Eq(t, kind.harms, (err != nil), test.Sprintf("Prepare says %v", err))
		if err != nil && (!strings.Contains(err.Error(), c.Name) || !containsOne(err.Error(), kind.says)) {
			t.Errorf("Prepare does not say what is wrong with claim %s: %v", c.Name, err)
		}
		must.NoError(t, os.Remove(drivertest.SpecPath(b.CDIDir, old)))
		prepared := []*resourceapi.ResourceClaim{old}
		if !kind.harms {
			prepared = append(prepared, c)
		}
		drivertest.Eventually(t, func() error { return invariants.AtRest(b.Worker, invariants.Claims{Prepared: prepared}) })
		test.NoError(t, unprepare(drivertest.Context(t), b.Node, old))
		shot.Disarm()
		test.NoError(t, b.call(c), test.Sprint("after the trouble Prepare"))
		test.NoError(t, invariants.AtRest(b.Worker, invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}}))
	})
}

// atOnce runs a test with each fault, all of them at the same time: mostly they wait.
func atOnce(t *testing.T, faults []apiFault, c func(*testing.T, apiFault)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, kind := range faults {
		wg.Go(func() { t.Run(kind.name, func(t *testing.T) { c(t, kind) }) })
	}
	wg.Wait()
}

func containsOne(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// TestAPIInStart lets each request of a start and of a change of the slices fail once,
// in each way: in the end the slices are those of the host.
func TestAPIInStart(t *testing.T) {
	needs.Proof(t, "each fault starts a driver")
	t.Parallel()
	old, want := publishedOf(t, faultMachine), drivertest.DeviceNames(publishedOf(t, "roce-sriov"))
	once := slices.DeleteFunc(slices.Clone(apiFaults), func(f apiFault) bool {
		return f.name == "hangs" // package apiclient has it
	})
	atOnce(t, once, func(t *testing.T, kind apiFault) {
		requests := make(chan int, 1)
		requests <- 3 // at least; each run says how many there were
		for n := 1; n <= <-requests; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				b := newBadAPI(t, "roce-sriov")
				b.addSlices(t, old)
				shot := b.Arm(apifault.Fault{N: n, Do: kind.do})
				b.start(t)
				wantPublished(t, b.Node, want)
				request, fired := shot.Fired()
				requests <- len(shot.Seen())
				t.Logf("%s: hit %v, %d requests", request, fired, len(shot.Seen()))
			})
		}
	})
}

// publishedOf returns the slices that a driver publishes of a machine.
func publishedOf(t *testing.T, machine string) []resourceapi.ResourceSlice {
	n := drivertest.NewNode(t, machine)
	p := n.Start(t, "")
	defer p.Kill()
	return drivertest.WaitPublished(t, n)
}

// addSlices puts slices into the API server that a driver has published there before.
func (b *badAPI) addSlices(t *testing.T, slices []resourceapi.ResourceSlice) {
	t.Helper()
	for _, s := range slices {
		s.ResourceVersion, s.UID = "", ""
		_, err := b.Client(t).ResourceV1().ResourceSlices().Create(drivertest.Context(t), &s, metav1.CreateOptions{})
		must.NoError(t, err)
	}
}

func wantPublished(t *testing.T, n *drivertest.Node, want []string) {
	t.Helper()
	err := drivertest.Await(2*patience, func() error { // the library waits 30 s between some of its tries
		if got := drivertest.DeviceNames(n.Slices()); strings.Join(got, " ") != strings.Join(want, " ") {
			return fmt.Errorf("published are %v, want %v", got, want)
		}
		return nil
	})
	must.NoError(t, err)
}

// TestStartWithoutAPI: a driver that starts while the API server is in trouble serves
// the kubelet, keeps prepared claims in order and ends claims; when the trouble is over
// it publishes by itself.
func TestStartWithoutAPI(t *testing.T) {
	needs.Proof(t, "each fault starts a driver")
	t.Parallel()
	lasting := slices.DeleteFunc(slices.Clone(apiFaults), func(f apiFault) bool {
		return !f.harms || f.name == "hangs" && os.Getenv("TEST_LONG") == "" // half a minute for each request
	})
	atOnce(t, lasting, func(t *testing.T, kind apiFault) {
		b := newBadAPI(t, faultMachine)
		p := b.start(t)
		c := drivertest.Claim(1, faultHCA)
		b.AddClaim(c)
		must.NoError(t, b.call(c))
		want := drivertest.DeviceNames(drivertest.WaitPublished(t, b.Node))
		p.Kill()
		b.Disconnect()
		b.WipeSlices()
		must.NoError(t, os.Remove(drivertest.SpecPath(b.CDIDir, c)))
		shot := b.Arm(apifault.Fault{N: 1, Do: kind.do, Lasting: true})
		b.start(t)
		test.NoError(t, invariants.AtRest(b.Worker, invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}}))
		test.NoError(t, unprepare(drivertest.Context(t), b.Node, c))
		test.NoError(t, invariants.AtRest(b.Worker, invariants.Claims{}))
		shot.Disarm()
		wantPublished(t, b.Node, want)
	})
}

// TestDroppedFields: a server that drops what makes a device shareable does not bring
// the driver down, nor into a loop of writes.
func TestDroppedFields(t *testing.T) {
	t.Parallel()
	b := newBadAPI(t, faultMachine)
	config := filepath.Join(drivertest.TempDir(t), "config.yaml")
	content := "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\nrules:\n- name: all\n  publish: shared\n  shares: 8\n"
	must.NoError(t, os.WriteFile(config, []byte(content), 0o600))
	drop := apifault.Drop(func(s *resourceapi.ResourceSlice) { controlplane.Drop(controlplane.V134(), s) })
	shot := b.Arm(apifault.Fault{N: 1, Lasting: true, Match: apifault.Writes, Do: drop})
	p := b.start(t, "--config", config)
	published := drivertest.WaitPublished(t, b.Node)
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			test.Nil(t, d.AllowMultipleAllocations, test.Sprintf("device %s may be shared", d.Name))
		}
	}
	c := drivertest.Claim(1, faultHCA)
	b.AddClaim(c)
	test.NoError(t, b.call(c))
	b.Restart() // which makes it publish again
	drivertest.Eventually(t, func() error { return b.call(c) })
	test.Eq(t, 0, p.Terminate(), test.Sprint("exit code"))
	if n := len(shot.Seen()); n > 10 {
		t.Errorf("%d writes: %v", n, shot.Seen())
	}
}
