package podresources_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

const driver = "rdma.dev"

func socket(k *drivertest.Kubelet) string {
	return filepath.Join(k.Dir, "pod-resources", "kubelet.sock")
}

// TestList: pods by the claims that they use, with devices where the kubelet names them.
func TestList(t *testing.T) {
	k := drivertest.NewKubelet(t)
	shared, own := drivertest.Claim(1, "a", "b"), drivertest.Claim(2, "c")
	k.SetPods(nil, shared)
	k.AddPod("b", shared, own)
	k.AddPod("a", shared)
	listing, err := podresources.List(t.Context(), socket(k), driver)
	must.NoError(t, err)
	got := listing.Claims
	name := func(s string) types.NamespacedName { return types.NamespacedName{Namespace: "team-a", Name: s} }
	want := podresources.Claims{
		name("claim-1"): {
			{Namespace: "team-a", Name: "a", Devices: []string{"a", "b"}},
			{Namespace: "team-a", Name: "b", Devices: []string{"a", "b"}},
			{Namespace: "team-a", Name: "pod"},
		},
		name("claim-2"): {{Namespace: "team-a", Name: "b", Devices: []string{"c"}}},
	}
	test.Eq(t, want, got, test.Sprint("claims"))
}

// TestUsers: CDI devices tell claims of one name apart. A pod may use either claim if the kubelet names no CDI devices
// for the pod.
func TestUsers(t *testing.T) {
	k := drivertest.NewKubelet(t)
	claim := drivertest.Claim(1, "a", "b")
	k.AddUsingPod("old", claim, "rdma.dev/claim=a.r0.old", "rdma.dev/claim=b.r1.old")
	k.AddUsingPod("new", claim, "rdma.dev/claim=a.r0.new")
	k.AddUsingPod("starting", claim)
	k.AddUsingPod("other", drivertest.Claim(2, "a"), "rdma.dev/claim=a.r0.old")
	listing, err := podresources.List(t.Context(), socket(k), driver)
	must.NoError(t, err)
	claims := listing.Claims
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	for id, want := range map[string][]string{
		"rdma.dev/claim=b.r1.old": {"old", "starting"},
		"rdma.dev/claim=a.r0.new": {"new", "starting"},
		"rdma.dev/claim=a.r0":     {"starting"},
	} {
		var got []string
		for _, pod := range claims.Users(name, []string{id}) {
			got = append(got, pod.Name)
		}
		test.Eq(t, want, got, test.Sprintf("users by %s", id))
	}
	if got := claims.Users(types.NamespacedName{Namespace: "team-b", Name: claim.Name}, nil); len(got) > 0 {
		t.Errorf("users of a claim of another namespace: %v", got)
	}
}

// TestUses: only a pod that the kubelet lists with a CDI device of the claim uses it. SharedWith goes by names, because
// the kubelet has no CDI devices of a claim that is being prepared.
func TestUses(t *testing.T) {
	k := drivertest.NewKubelet(t)
	claim, other := drivertest.Claim(1, "a"), drivertest.Claim(2, "b")
	k.AddUsingPod("new", claim, "rdma.dev/claim=a.r0.new")
	k.AddUsingPod("old", claim, "rdma.dev/claim=a.r0.old")
	k.AddUsingPod("starting", claim)
	k.AddPod("both", claim, other)
	k.AddPod("none")
	listing, err := podresources.List(t.Context(), socket(k), driver)
	must.NoError(t, err)
	named := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: claim.Namespace, Name: name}
	}
	for pod, want := range map[string][2]bool{
		"new": {true, true}, "old": {false, true}, "starting": {false, true}, "both": {false, true}, "none": {false, true},
		"unlisted": {false, false},
	} {
		uses, known := listing.Uses(named(pod), named(claim.Name), []string{"rdma.dev/claim=a.r0.new"})
		test.EqOp(t, want, [2]bool{uses, known}, test.Sprintf("pod %s: uses and known", pod))
	}
	for of, want := range map[string]int{claim.Name: 2, other.Name: 2, "none": 0} {
		if got := listing.SharedWith(named(of)); len(got) != want {
			t.Errorf("with claim %s: %v, want %d", of, got, want)
		}
	}
}

// TestCache: the kubelet is not asked again within the time, and an error is kept as
// well; no socket is no error.
func TestCache(t *testing.T) {
	k := drivertest.NewKubelet(t)
	c := podresources.Cache{Socket: socket(k), Driver: driver, For: time.Hour}
	k.SetPods(errors.New("the kubelet is busy"))
	for range 2 {
		if _, err := c.Claims(t.Context()); err == nil || !strings.Contains(err.Error(), "the kubelet is busy") {
			t.Errorf("error %v", err)
		}
		k.SetPods(nil, drivertest.Claim(1, "a"))
	}
	c.For = 0
	if claims, err := c.Claims(t.Context()); err != nil || len(claims) != 1 {
		t.Errorf("claims %v, %v", claims, err)
	}
	none := podresources.Cache{Socket: filepath.Join(t.TempDir(), "kubelet.sock"), Driver: driver}
	if claims, err := none.Claims(t.Context()); err != nil || len(claims) != 0 {
		t.Errorf("without a socket: %v, %v", claims, err)
	}
}

// TestLargeList: a list that is larger than what gRPC takes by default is read, and one without bounds is refused with
// the way out.
func TestLargeList(t *testing.T) {
	k := drivertest.NewKubelet(t)
	devices := make([]string, 32) // the API allows no more in a claim
	for i := range devices {
		devices[i] = "pci-" + strings.Repeat("0", 50) + strconv.Itoa(i)
	}
	claim := drivertest.Claim(1, devices...)
	pods := 0
	add := func(mib int) { // a device takes 80 bytes or more
		for ; pods < mib<<20/(80*len(devices)); pods++ {
			k.AddPod("pod-"+strconv.Itoa(pods), claim)
		}
	}
	add(6)
	listing, err := podresources.List(t.Context(), socket(k), driver)
	must.NoError(t, err)
	for _, users := range listing.Claims {
		test.Eq(t, pods, len(users), test.Sprint("pods"))
	}
	add(17)
	if _, err := podresources.List(t.Context(), socket(k), driver); err == nil ||
		!strings.Contains(err.Error(), "its list is larger than 16 MiB") {
		t.Errorf("error %v", err)
	}
}
