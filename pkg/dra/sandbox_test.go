package dra_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// onlyHCA is the one of the machine exclusive-netns.
const onlyHCA = "pci-0000-3b-00-0"

// kernel does to a fixture what the kernel does when an RDMA device moves: its directory
// leaves the host's sysfs, and its node gets another number. That the kernel really does
// so is shown in test/vm.
type kernel struct {
	t    *testing.T
	host *drivertest.Node

	mu     sync.Mutex
	where  string          // the namespace that has the device, "" for the host's
	number int             // of the node
	ended  map[string]bool // namespaces
	fixed  error
	fails  error // the next move in
	moves  int
	in     func() // after it went
	out    func() // before it comes back
}

func (k *kernel) path(name string) string { return filepath.Join(k.host.Root, "sys", name) }

func (k *kernel) Movable(string) error { return k.fixed }

func (k *kernel) In(_, netns string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ended[netns]:
		return false, fmt.Errorf("open network namespace %q: %w", netns, rdmanetns.ErrEnded)
	case k.where == netns:
		return false, nil
	case k.where != "":
		return false, fmt.Errorf("move it to %s: %w", netns, rdmanetns.ErrAbsent)
	case k.fails != nil:
		err := k.fails
		k.fails = nil
		return false, err
	}
	k.where = netns
	k.must(os.Rename(k.path("class/infiniband/mlx5_0"), k.path("moved")))
	k.renumber()
	if k.in != nil {
		k.in()
	}
	return true, nil
}

func (k *kernel) Out(_, netns string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.where != netns {
		return false, nil
	}
	if k.out != nil {
		k.out()
	}
	k.where = ""
	k.must(os.Rename(k.path("moved"), k.path("class/infiniband/mlx5_0")))
	k.renumber()
	return true, nil
}

// renumber gives the device another node.
func (k *kernel) renumber() {
	k.moves++
	const dir = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband_verbs/"
	old, now := fmt.Sprintf("uverbs%d", k.number), fmt.Sprintf("uverbs%d", k.number+1)
	k.number++
	k.must(os.Rename(k.path(dir+old), k.path(dir+now)))
	k.must(os.WriteFile(k.path(dir+now+"/dev"), fmt.Appendf(nil, "231:%d\n", 192+k.number), 0o644))
	k.must(os.Remove(k.path("class/infiniband_verbs/" + old)))
	k.must(os.Symlink("../../"+dir+now, k.path("class/infiniband_verbs/"+now)))
	k.must(os.Remove(k.host.Node(old)))
	k.must(unix.Mknod(k.host.Node(now), unix.S_IFCHR|0o666, int(unix.Mkdev(231, uint32(192+k.number)))))
}

func (k *kernel) must(err error) {
	test.NoError(k.t, err)
}

// follow starts a driver that moves devices, on a host in exclusive mode.
func follow(t *testing.T, events chan watch.Signal, options ...func(*dra.Config)) (*drivertest.Node, *kernel, *driver) {
	t.Helper()
	n := drivertest.NewNode(t, "exclusive-netns")
	k := &kernel{t: t, host: n}
	return n, k, startHearing(t, n, events, append(options, k.moving, quick)...)
}

func (k *kernel) moving(c *dra.Config) {
	c.Mover, c.NRISocket, c.Hook.Presence = k, filepath.Join(k.host.Root, "no-nri.sock"), true
}

// reserved is a claim of a pod.
func reserved(n int, pod nri.Pod, devices ...string) *resourceapi.ResourceClaim {
	c := drivertest.Claim(n, devices...)
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: types.UID(pod.UID)}}
	return c
}

func podNamed(name string) nri.Pod {
	return nri.Pod{UID: "uid-" + name, Namespace: "team-a", Name: name, Netns: "/run/netns/" + name}
}

// specSays returns the text of a claim's spec.
func specSays(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.CDIDir, "rdma.dev-claim_"+string(c.UID)+".json"))
	must.NoError(t, err)
	return string(b)
}

// TestFollow: the HCA goes with its pod, its spec has the nodes that it has there before
// the sandbox is reported, the slice keeps it, and it comes back as itself.
func TestFollow(t *testing.T) {
	t.Parallel()
	events := make(chan watch.Signal)
	n, k, d := follow(t, events)
	waitTaints(t, n, onlyHCA, "")
	test.StrNotContains(t, d.Log.String(), "No RDMA device is offered",
		test.Sprint("the log says that nothing is offered"))
	pod := podNamed("a")
	claim := reserved(1, pod, onlyHCA)
	n.AddClaim(claim)
	prepare(t, n, claim)
	err := d.Sandboxes().Started(t.Context(), podNamed("other"))
	must.True(t, err == nil && k.moves == 0, must.Sprintf("a pod without claims: %d moves, %v", k.moves, err))
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	spec := specSays(t, n, claim)
	test.True(t, k.where == pod.Netns && strings.Contains(spec, "/dev/infiniband/uverbs1") &&
		strings.Contains(spec, `"mlx5_0:uverbs1"`),
		test.Sprintf("the device is in %q, and the spec says\n%s", k.where, spec))
	events <- of("mlx5_0")
	prepare(t, n, claim) // as a restarted kubelet does
	test.Eq(t, spec, specSays(t, n, claim), test.Sprint("prepared again, the spec"))
	waitTaints(t, n, onlyHCA, "")
	refused(t, n, reservedOn(n, 2, podNamed("b")), "it is still in the network namespace of another pod")
	for range 2 { // StopPodSandbox and RemovePodSandbox
		d.Sandboxes().Stopped(t.Context(), pod)
	}
	test.True(t, k.where == "" && k.moves == 2 && strings.Contains(specSays(t, n, claim), "uverbs"),
		test.Sprintf("the device is in %q after %d moves", k.where, k.moves))
	unprepare(t, n, claim)
	next := reserved(3, podNamed("c"), onlyHCA)
	n.AddClaim(next)
	prepare(t, n, next)
	err = d.Sandboxes().Started(t.Context(), podNamed("c"))
	test.True(t, err == nil && k.where == "/run/netns/c", test.Sprintf("the next pod: %q, %v", k.where, err))
}

// reservedOn adds a claim of a pod on the only HCA.
func reservedOn(n *drivertest.Node, i int, pod nri.Pod) *resourceapi.ResourceClaim {
	c := reserved(i, pod, onlyHCA)
	n.AddClaim(c)
	return c
}

// TestFollowAfterRestart: a driver that comes back knows of the HCA in a pod, and makes up for what
// it was not told.
func TestFollowAfterRestart(t *testing.T) {
	events := make(chan watch.Signal)
	n, k, d := follow(t, events)
	waitTaints(t, n, onlyHCA, "")
	pod := podNamed("a")
	claim := reservedOn(n, 1, pod)
	prepare(t, n, claim)
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	spec := specSays(t, n, claim)
	d.stop()
	d = startHearing(t, n, events, k.moving, quick)
	waitTaints(t, n, onlyHCA, "")
	test.Eq(t, spec, specSays(t, n, claim), test.Sprint("after a restart the spec"))
	if _, err := k.Out("mlx5_0", pod.Netns); err != nil { // as when the sandbox was created again
		t.Fatal(err)
	}
	again := pod
	again.Netns = "/run/netns/again"
	d.Sandboxes().Running(t.Context(), []nri.Pod{podNamed("other"), again})
	test.True(t, k.where == again.Netns &&
		strings.Contains(specSays(t, n, claim), fmt.Sprintf("uverbs%d", k.number)),
		test.Sprintf("the device is in %q", k.where))
}

// TestFollowForNobody: the runtime may give up on a request whose devices have moved already, and start the containers.
// The hook has let them start with the devices, so the driver does not take the devices back.
func TestFollowForNobody(t *testing.T) {
	n, k, d := follow(t, nil)
	pod := podNamed("a")
	c := reserved(1, pod, onlyHCA)
	n.AddClaim(c)
	prepare(t, n, c)
	ctx, giveUp := context.WithCancel(t.Context())
	k.in = giveUp
	test.NoError(t, d.Sandboxes().Started(ctx, pod))
	drivertest.Eventually(t, func() error { // the driver goes on without the runtime
		if spec := specSays(t, n, c); !strings.Contains(spec, "uverbs1") {
			return fmt.Errorf("the spec does not have the new node: %s", spec)
		}
		return nil
	})
	where, _ := k.at()
	test.True(t, where == pod.Netns && k.moves == 1,
		test.Sprintf("the device is in %q after %d moves", where, k.moves))
}

// TestFollowFails: a pod that cannot have its devices does not start, and what was moved
// is back. A pod of the host's network has the host's devices.
func TestFollowFails(t *testing.T) {
	events := make(chan watch.Signal)
	n, k, d := follow(t, events)
	waitTaints(t, n, onlyHCA, "")
	pod := podNamed("a")
	claim := reservedOn(n, 1, pod)
	prepare(t, n, claim)
	k.fails = errors.New("the kernel is busy")
	test.ErrorContains(t, d.Sandboxes().Started(t.Context(), pod), "pod team-a/a the RDMA devices of its claims: claim team-a/claim-1: the kernel is busy")
	if err := os.Remove(n.Node("uverbs0")); err != nil { // then the new node cannot be given either
		t.Fatal(err)
	}
	host := pod
	host.Netns = ""
	err := d.Sandboxes().Started(t.Context(), host)
	test.True(t, err == nil && k.moves == 0, test.Sprintf("host's network: %d moves, %v", k.moves, err))
}

// TestFixed: a device that cannot follow a pod is not offered, and no claim gets it.
func TestFixed(t *testing.T) {
	n := drivertest.NewNode(t, "exclusive-netns")
	k := &kernel{t: t, host: n, fixed: fmt.Errorf("its kernel driver is too old: %w", rdmanetns.ErrFixed)}
	d := startHearing(t, n, make(chan watch.Signal), k.moving, quick)
	d.says("and the HCA cannot follow a pod: its kernel driver is too old")
	test.MapEmpty(t, publishedDevices(n), test.Sprint("published"))
	refused(t, n, reservedOn(n, 1, podNamed("a")), "its kernel driver is too old")
}

// TestMemlockOfSandbox: the runtime is told the limit that the hook has, and never a lower one than
// there is.
func TestMemlockOfSandbox(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	hook := func(args ...string) []string {
		return append([]string{"/opt/rdma.dev/bin/rdma-hook-v1", "rdma-hook"}, args...)
	}
	limit := func(n uint64) *uint64 { return &n }
	for name, c := range map[string]struct {
		container nri.Container
		want      *uint64
	}{
		"no hook":          {nri.Container{}, nil},
		"somebody's hook":  {nri.Container{Hooks: [][]string{{"/usr/bin/other", "other", "--memlock", "1Gi"}}}, nil},
		"unlimited":        {nri.Container{Hooks: [][]string{hook("--memlock", "unlimited")}}, limit(nri.Unlimited)},
		"the higher one":   {nri.Container{Hooks: [][]string{hook("--memlock", "1Gi"), hook("--memlock", "4Gi")}}, limit(4 << 30)},
		"inherit":          {nri.Container{Hooks: [][]string{hook("--limit", "mlx5_0:handles=1")}}, nil},
		"already as high":  {nri.Container{Hooks: [][]string{hook("--memlock", "1Gi")}, Memlock: limit(1 << 30)}, nil},
		"less than wanted": {nri.Container{Hooks: [][]string{hook("--memlock", "1Gi")}, Memlock: limit(64 << 10)}, limit(1 << 30)},
		"not understood":   {nri.Container{Hooks: [][]string{hook("--memlock", "much")}}, nil},
	} {
		got := d.Sandboxes().Adjust(t.Context(), nri.Pod{}, c.container).Memlock
		test.True(t, (got == nil) == (c.want == nil) && (got == nil || *got == *c.want),
			test.Sprintf("%s: %v, want %v", name, got, c.want))
	}
}
