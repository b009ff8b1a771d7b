package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestBadInput: the error that reaches the pod's events names the claim, the
// field or device, and what to do; the other claim of the same call goes on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	otherPool := drivertest.Claim(1, dev0)
	otherPool.Status.Allocation.Devices.Results[0].Pool = "node2"
	for _, tc := range []struct {
		name, machine, good string
		bad                 *resourceapi.ResourceClaim
		want                []string
	}{
		{"unknown field", "hgx-h100", dev1, drivertest.WithParameters(drivertest.Claim(1, dev0), `"memlok": "1Gi"`), []string{"request r0", `unknown field "memlok"`}},
		{"umad in a user's claim", "hgx-h100", dev1, drivertest.WithParameters(drivertest.Claim(1, dev0), `"nodes": ["verbs", "mad"]`), []string{"request r0", "nodes[1]: Forbidden", "allow.nodes"}},
		{"no uverbs", "misbehaving", "pci-0000-05-00-0", drivertest.Claim(1, "pci-0000-04-00-0"), []string{"device pci-0000-04-00-0", "no uverbs node", "load the ib_uverbs module"}},
		{"no such device", "hgx-h100", dev1, drivertest.Claim(1, "pci-0000-ff-00-0"), []string{"device pci-0000-ff-00-0", "it was removed, or its driver is not loaded"}},
		{"another node's pool", "hgx-h100", dev1, otherPool, []string{"pool node2", "this node has only pool node1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, tc.machine)
			start(t, n)
			good := drivertest.Claim(2, tc.good)
			n.AddClaim(tc.bad, good)
			response, err := n.Prepare(drivertest.Context(t), tc.bad, good)
			must.NoError(t, err)
			_, err = drivertest.Devices(response, good)
			test.NoError(t, err, test.Sprint("the other claim failed too"))
			_, err = drivertest.Devices(response, tc.bad)
			for _, part := range append(tc.want, "claim team-a/claim-1") {
				test.ErrorContains(t, err, part, test.Sprint("error does not say"))
			}
			wantFiles(t, n, good)
			unprepare(t, n, tc.bad, good)
			wantFiles(t, n)
		})
	}
}

// TestManyBadClaims: waiting for devices that do not come back is done once for a
// call, or the kubelet would give up on it, and on the good claim in it.
func TestManyBadClaims(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	var claims []*resourceapi.ResourceClaim
	for i := range 20 {
		claims = append(claims, drivertest.Claim(i, "pci-0000-ff-00-0"))
	}
	good := drivertest.Claim(20, dev0)
	n.AddClaim(append(claims, good)...)
	response, err := n.Prepare(drivertest.Context(t), append(claims, good)...)
	must.NoError(t, err)
	_, err = drivertest.Devices(response, good)
	test.NoError(t, err)
	for _, c := range claims {
		_, err := drivertest.Devices(response, c)
		test.Error(t, err, test.Sprintf("claim %s was prepared", c.Name))
	}
	wantFiles(t, n, good)
}

// TestTwoClaimsOnOneDevice: the second one is told who has it, and gets it when
// the first has ended.
func TestTwoClaimsOnOneDevice(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	a, b := drivertest.Claim(1, dev0, dev1), drivertest.Claim(2, dev1)
	n.AddClaim(a, b)
	prepare(t, n, a)
	refused(t, n, b, "claim team-a/claim-2", "device "+dev1, "in use by claim team-a/claim-1", "delete the pod of one of them")
	wantFiles(t, n, a)
	unprepare(t, n, a)
	prepare(t, n, b)
	wantFiles(t, n, b)
}

// TestNodeOnHost: a node that is missing in /dev, or another device's, is told
// instead of handed out.
func TestNodeOnHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(path string) error
		want   string
	}{
		{"missing", func(string) error { return nil }, "no such file or directory; is /dev a devtmpfs, and mounted into the driver's pod?"},
		{"another number", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }, "is not character device 231:192"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			start(t, n)
			must.NoError(t, os.Remove(n.Node("uverbs0")))
			must.NoError(t, tc.change(n.Node("uverbs0")))
			c := drivertest.Claim(1, dev0)
			n.AddClaim(c)
			refused(t, n, c, "claim team-a/claim-1: device "+dev0, "node /dev/infiniband/uverbs0", tc.want)
			wantFiles(t, n)
		})
	}
}

// TestCDIDirectory: one that is read-only or full is told with its path and the
// remedy; the claim is prepared when the kubelet tries again.
func TestCDIDirectory(t *testing.T) {
	drivertest.RequireRoot(t)
	for _, tc := range []struct {
		name, options, want string
		mend                string // options that mend it
	}{
		{"read-only", "ro", "read-only file system", "rw"},
		{"full", "size=4k", "no space left on device", "size=1m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			mount(t, n.CDIDir, "size=1m")
			d := start(t, n)
			c := drivertest.Claim(1, dev0)
			n.AddClaim(c)
			fill(t, n.CDIDir)
			remount(t, n.CDIDir, tc.options)
			refused(t, n, c, "claim team-a/claim-1", n.CDIDir, tc.want, "needs a writable CDI directory with free space on the node")
			for _, name := range drivertest.Files(t, n.CDIDir) {
				test.Eq(t, "filler", name, test.Sprint("is left of the failed call"))
			}
			remount(t, n.CDIDir, "rw,"+tc.mend)
			must.NoError(t, os.Remove(filepath.Join(n.CDIDir, "filler")))
			prepare(t, n, c)
			wantFiles(t, n, c)
			d.stop()
		})
	}
}

// fill leaves no room for a spec in a file system of 4 KiB.
func fill(t *testing.T, dir string) {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 4096), 0o644))
}

func mount(t *testing.T, dir, options string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(dir, 0o755))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		needs.Missing(t, &os.PathError{Op: "mount tmpfs at", Path: dir, Err: err})
	}
	t.Cleanup(func() {
		test.NoError(t, unix.Unmount(dir, 0), test.Sprintf("unmount %s", dir))
	})
}

func remount(t *testing.T, dir, options string) {
	t.Helper()
	flags, data := uintptr(unix.MS_REMOUNT), []string{}
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "ro":
			flags |= unix.MS_RDONLY
		case "rw":
		default:
			data = append(data, o)
		}
	}
	must.NoError(t, unix.Mount("", dir, "", flags, strings.Join(data, ",")),
		must.Sprintf("remount %s %s", dir, options))
}

// TestRenumbering: the kernel finds its cards in another order between the
// snapshot and Prepare. The claim gets the node of its slot, not of the name.
func TestRenumbering(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	for _, step := range []struct {
		machine *fixture.Machine
		node    string
	}{
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1"), "uverbs0"},
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1", "uverbs0", "uverbs1"), "uverbs1"},
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_5", "uverbs0", "uverbs5"), "uverbs5"},
		{drivertest.Swapped(t, "hgx-h100"), "uverbs0"},
	} {
		n.Become(t, step.machine)
		prepare(t, n, c)
		want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/" + step.node}
		test.SliceEqOp(t, want, drivertest.Nodes(drivertest.Spec(t, n.CDIDir, c)), test.Sprint("nodes"))
	}
}

// TestRenumberingOfOthers: a Prepare that finds the cards in another order puts
// the specs of all prepared claims right, not only its own: a container of theirs
// that restarts would get another claim's device.
func TestRenumberingOfOthers(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	a, b := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(a, b)
	prepare(t, n, a)
	d.says("Publishing ResourceSlices")
	n.Become(t, drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1", "uverbs0", "uverbs1"))
	prepare(t, n, b)
	want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"}
	drivertest.Eventually(t, func() error {
		if got := drivertest.Nodes(drivertest.Spec(t, n.CDIDir, a)); !slices.Equal(got, want) {
			return fmt.Errorf("the first claim has nodes %v, want %v", got, want)
		}
		return nil
	})
}

// TestDriverReload: a device that is away for a moment is waited for.
func TestDriverReload(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	n.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	gets := n.Count(drivertest.GetClaim)
	done := make(chan error, 1)
	go func() {
		response, err := n.Prepare(drivertest.Context(t), c)
		if err == nil {
			_, err = drivertest.Devices(response, c)
		}
		done <- err
	}()
	drivertest.Eventually(t, func() error {
		if n.Count(drivertest.GetClaim) == gets {
			return errNotAsked
		}
		return nil
	})
	n.Become(t, drivertest.Swapped(t, "hgx-h100"))
	test.NoError(t, <-done)
	wantFiles(t, n, c)
}
