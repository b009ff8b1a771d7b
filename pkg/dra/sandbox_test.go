package dra_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
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

// follow starts a driver that moves devices, on a host in exclusive mode.
func follow(
	t *testing.T, events chan watch.Signal, options ...func(*dra.Config),
) (*drivertest.Node, *drivertest.Mover, *driver) {
	t.Helper()
	n := drivertest.NewNode(t, "exclusive-netns")
	k := drivertest.NewMover(t, n.Host)
	return n, k, startHearing(t, n, events, append(options, moving(n, k), quick)...)
}

// moving moves the HCAs of a host. The test itself announces pods.
func moving(n *drivertest.Node, k *drivertest.Mover) func(*dra.Config) {
	return func(c *dra.Config) {
		c.Mover, c.NRISocket, c.Hook.Presence = k, filepath.Join(n.Root, "no-nri.sock"), true
	}
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
	drivertest.WaitTaints(t, n, onlyHCA, "")
	test.StrNotContains(t, d.Log.String(), "No RDMA device is offered",
		test.Sprint("the log says that nothing is offered"))
	pod := podNamed("a")
	claim := reserved(1, pod, onlyHCA)
	n.AddClaim(claim)
	prepare(t, n, claim)
	err := d.Sandboxes().Started(t.Context(), podNamed("other"))
	must.True(t, err == nil && k.Moves() == 0, must.Sprintf("a pod without claims: %d moves, %v", k.Moves(), err))
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	spec := specSays(t, n, claim)
	test.True(t, strings.Contains(spec, "/dev/infiniband/uverbs1") && strings.Contains(spec, `"mlx5_0:uverbs1"`),
		test.Sprintf("the spec says\n%s", spec))
	k.IsIn(pod.Netns)
	events <- of("mlx5_0")
	prepare(t, n, claim) // as a restarted kubelet does
	test.Eq(t, spec, specSays(t, n, claim), test.Sprint("prepared again, the spec"))
	drivertest.WaitTaints(t, n, onlyHCA, "")
	refused(t, n, reservedOn(n, 2, podNamed("b")), "it is still in the network namespace of another pod")
	for range 2 { // StopPodSandbox and RemovePodSandbox
		d.Sandboxes().Stopped(t.Context(), pod)
	}
	k.IsIn("")
	test.Eq(t, 2, k.Moves(), test.Sprint("moves"))
	test.StrContains(t, specSays(t, n, claim), "uverbs")
	unprepare(t, n, claim)
	next := reserved(3, podNamed("c"), onlyHCA)
	n.AddClaim(next)
	prepare(t, n, next)
	d.starts(podNamed("c"))
	k.IsIn("/run/netns/c")
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
	drivertest.WaitTaints(t, n, onlyHCA, "")
	pod := podNamed("a")
	claim := reservedOn(n, 1, pod)
	prepare(t, n, claim)
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	spec := specSays(t, n, claim)
	d.stop()
	d = startHearing(t, n, events, moving(n, k), quick)
	drivertest.WaitTaints(t, n, onlyHCA, "")
	test.Eq(t, spec, specSays(t, n, claim), test.Sprint("after a restart the spec"))
	if _, err := k.Out("mlx5_0", pod.Netns); err != nil { // as when the sandbox was created again
		t.Fatal(err)
	}
	again := pod
	again.Netns = "/run/netns/again"
	d.Sandboxes().Running(t.Context(), []nri.Pod{podNamed("other"), again})
	k.IsIn(again.Netns)
	test.StrContains(t, specSays(t, n, claim), fmt.Sprintf("uverbs%d", k.Moves()))
}

// TestFixed: a device that cannot follow a pod is not offered, and no claim gets it.
func TestFixed(t *testing.T) {
	n := drivertest.NewNode(t, "exclusive-netns")
	k := drivertest.NewMover(t, n.Host)
	k.Fixed = fmt.Errorf("its kernel driver is too old: %w", rdmanetns.ErrFixed)
	d := startHearing(t, n, make(chan watch.Signal), moving(n, k), quick)
	d.WaitLog("and the HCA cannot follow a pod: its kernel driver is too old")
	test.MapEmpty(t, drivertest.PublishedDevices(n), test.Sprint("published"))
	refused(t, n, reservedOn(n, 1, podNamed("a")), "its kernel driver is too old")
}

// TestReboot: after a reboot the device is on the host, and what the driver knew of pods is void.
func TestReboot(t *testing.T) {
	n, k, d := follow(t, nil)
	pod := podNamed("a")
	c := reservedOn(n, 1, pod)
	prepare(t, n, c)
	d.starts(pod)
	d.stop()
	for _, name := range drivertest.Files(t, n.RecordDir()) { // they become those of an earlier boot
		path := filepath.Join(n.RecordDir(), name)
		data, err := os.ReadFile(path)
		must.NoError(t, err)
		data = bytes.ReplaceAll(data, []byte(drivertest.BootID(t)), []byte("an-earlier-boot"))
		must.NoError(t, os.WriteFile(path, data, 0o600))
	}
	_, err := k.Out("mlx5_0", pod.Netns)
	must.NoError(t, err)
	d = startHearing(t, n, make(chan watch.Signal), moving(n, k), quick)
	moves := k.Moves()
	d.starts(pod) // the runtime gives its pods the names of before
	test.Eq(t, moves, k.Moves(), test.Sprint("moves for a pod of an earlier boot"))
	prepare(t, n, c) // as the kubelet does
	d.starts(pod)
	k.IsIn(pod.Netns)
	test.StrContains(t, specSays(t, n, c), fmt.Sprintf("uverbs%d", k.Moves()))
}
