package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// namespace makes a named network namespace.
func namespace(t *testing.T, name string) (path string) {
	t.Helper()
	inside.Must(t, "ip", "netns", "add", name)
	t.Cleanup(func() { inside.Run("ip", "netns", "del", name) })
	return filepath.Join("/run/netns", name)
}

// has returns the RDMA devices of a namespace.
func has(t *testing.T, path string) []string {
	t.Helper()
	ns, err := rdmanetns.Open(path)
	must.NoError(t, err)
	defer ns.Close()
	names, err := rdmanetns.Devices(ns)
	must.NoError(t, err)
	return names
}

// here returns the RDMA devices of the host, in two ways that agree.
func here(t *testing.T) []string {
	t.Helper()
	names := has(t, "/proc/thread-self/ns/net")
	entries, err := os.ReadDir("/sys/class/infiniband")
	must.NoError(t, err)
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	test.SliceEqOp(t, files, names, test.Sprint("netlink"))
	return names
}

// hca reads an HCA of the host.
func hca(t *testing.T, ibdev string) rdma.HCA {
	t.Helper()
	snap, err := rdma.Discover(sysfs.DirFS("/sys"))
	must.NoError(t, err)
	for _, h := range snap.HCAs {
		if h.IBDev == ibdev {
			return h
		}
	}
	t.Fatalf("the host has no %s, but %v", ibdev, here(t))
	return rdma.HCA{}
}

// present asks the hook about a process in a namespace.
func present(t *testing.T, ns string, want args.Presence) error {
	t.Helper()
	process := exec.Command("ip", "netns", "exec", ns, "cat")
	in, err := process.StdinPipe()
	must.NoError(t, err)
	out, err := process.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, process.Start())
	defer process.Wait()
	defer in.Close()
	// What it gives back it read there: ip has entered the namespace.
	if _, err := in.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return hook.CheckPresences(hook.HostDevices{}, process.Process.Pid, []args.Presence{want}, time.Now().Add(time.Minute))
}

// TestMovable: the kernel is asked without anything being moved.
func TestMovable(t *testing.T) {
	inside.NetnsMode(t, "exclusive")
	host, err := rdmanetns.NewHost()
	must.NoError(t, err)
	before := hca(t, "rxm0")
	for range 3 {
		test.NoError(t, host.Movable("rxm0"))
		test.ErrorIs(t, host.Movable("siw0"), rdmanetns.ErrFixed, test.Sprint("siw0"))
	}
	if after := hca(t, "rxm0"); *after.Uverbs != *before.Uverbs {
		t.Errorf("the node was %v and is %v: the device was moved", before.Uverbs, after.Uverbs)
	}
	if _, err := host.In("siw0", namespace(t, "fixed")); !errors.Is(err, rdmanetns.ErrFixed) {
		t.Errorf("move siw0: %v", err)
	}
}

// TestThereAndBack: a device is seen where it is and nowhere else, and is itself when it is
// back: brought back, or left to the kernel by a namespace that ends.
func TestThereAndBack(t *testing.T) {
	inside.NetnsMode(t, "exclusive")
	host, err := rdmanetns.NewHost()
	must.NoError(t, err)
	all, before := here(t), hca(t, "rxm0")
	other := namespace(t, "other")
	var in, out time.Duration
	times := inside.Times(100) // into a namespace and back
	for i := range times {
		pod := namespace(t, "pod")
		began := time.Now()
		if moved, err := host.In("rxm0", pod); err != nil || !moved {
			t.Fatalf("round %d: moved %v, %v", i, moved, err)
		}
		in += time.Since(began)
		if moved, err := host.In("rxm0", pod); err != nil || moved {
			t.Fatalf("round %d: moved %v again, %v", i, moved, err)
		}
		must.SliceEqOp(t, []string{"rxm0"}, has(t, pod), must.Sprintf("round %d: the pod", i))
		if i < 3 {
			seen(t, before, other)
		}
		began = time.Now()
		if i%2 == 0 {
			if moved, err := host.Out("rxm0", pod); err != nil || !moved {
				t.Fatalf("round %d: back %v, %v", i, moved, err)
			}
			out += time.Since(began)
		}
		inside.Must(t, "ip", "netns", "del", "pod")
		inside.Eventually(t, "all devices are back", time.Minute, func() error {
			if now := has(t, "/proc/thread-self/ns/net"); !slices.Equal(now, all) {
				return fmt.Errorf("the host has %v, want %v", now, all)
			}
			return nil
		})
	}
	after := hca(t, "rxm0")
	if after.Name != before.Name || after.NodeGUID != before.NodeGUID { // the name is made of the slot
		t.Errorf("it was %s %s, and is %s %s", before.Name, before.NodeGUID, after.Name, after.NodeGUID)
	}
	if moved, err := host.Out("rxm0", "/run/netns/pod"); err != nil || moved {
		t.Errorf("out of a namespace that ended: %v, %v", moved, err)
	}
	if moved, err := host.Out("rxm0", other); err != nil || moved {
		t.Errorf("out of a namespace that never had it: %v, %v", moved, err)
	}
	t.Logf("%d times; in takes %v, out %v", times, in/time.Duration(times), out/time.Duration(times/2))
}

// seen checks what others see of a device that is in the namespace "pod".
func seen(t *testing.T, before rdma.HCA, other string) {
	t.Helper()
	if names := here(t); slices.Contains(names, "rxm0") {
		t.Errorf("the host has %v", names)
	}
	if names := has(t, other); len(names) > 0 {
		t.Errorf("another namespace has %v", names)
	}
	away := rdma.Elsewhere(sysfs.DirFS("/sys"), []rdma.HCA{before})
	if len(away) != 1 || away[0].Uverbs == nil {
		t.Fatalf("elsewhere are %v", away)
	}
	node := away[0].Uverbs
	if _, err := os.Stat(node.Path()); err != nil {
		t.Error(err)
	}
	for ns, opens := range map[string]bool{"pod": true, "other": false} {
		if r := inside.Run("ip", "netns", "exec", ns, "sh", "-c", ": < "+node.Path()); opens != (r.Code == 0) {
			t.Errorf("open %s in namespace %s: %d %s", node.Path(), ns, r.Code, r.Out)
		}
		err := present(t, ns, args.Presence{IBDev: "rxm0", Uverbs: node.Name})
		if opens != (err == nil) || !opens && !strings.Contains(err.Error(), "is not in the pod's network namespace") {
			t.Errorf("the hook says of namespace %s: %v", ns, err)
		}
	}
}
