package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	otherPool := drivertest.Claim(1, dev0)
	otherPool.Status.Allocation.Devices.Results[0].Pool = "node2"
	says := func(parameters string) *resourceapi.ResourceClaim {
		return drivertest.WithParameters(drivertest.Claim(1, dev0), parameters)
	}
	for _, tc := range []struct {
		name, machine, good string
		bad                 *resourceapi.ResourceClaim
		want                []string
	}{
		{"unknown field", "hgx-h100", dev1, says(`"memlok": "1Gi"`), []string{"request r0", `unknown field "memlok"`}},
		{"umad in a user's claim", "hgx-h100", dev1, says(`"nodes": ["verbs", "mad"]`),
			[]string{"request r0", "nodes[1]: Forbidden", "allow.nodes"}},
		{"no uverbs", "misbehaving", "pci-0000-05-00-0", drivertest.Claim(1, "pci-0000-04-00-0"),
			[]string{"device pci-0000-04-00-0", "no uverbs node", "load the ib_uverbs module"}},
		{"no such device", "hgx-h100", dev1, drivertest.Claim(1, "pci-0000-ff-00-0"),
			[]string{"device pci-0000-ff-00-0", "it was removed, or its driver is not loaded"}},
		{"another node's pool", "hgx-h100", dev1, otherPool, []string{"pool node2", "this node has only pool node1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, tc.machine)
			good := drivertest.Claim(2, tc.good)
			synctest.Test(t, func(t *testing.T) {
				results := s.Prepare(s.ctx, []*resourceapi.ResourceClaim{tc.bad, good})
				test.NoError(t, results[good.UID].Err, test.Sprint("the other claim failed too"))
				s.saysAll(results[tc.bad.UID].Err, append(tc.want, "claim team-a/claim-1")...)
			})
			s.hasFiles(good)
			s.unprepares(tc.bad, good)
			s.hasFiles()
		})
	}
}

// TestManyBadClaims: waiting for devices that do not come back is done once for a
// call, or the kubelet would give up on it, and on the good claim in it.
func TestManyBadClaims(t *testing.T) {
	s := serve(t, "hgx-h100")
	var claims []*resourceapi.ResourceClaim
	for i := range 20 {
		claims = append(claims, drivertest.Claim(i, "pci-0000-ff-00-0"))
	}
	good := drivertest.Claim(20, dev0)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		results := s.Prepare(s.ctx, append(claims, good))
		test.NoError(t, results[good.UID].Err)
		for _, c := range claims {
			test.Error(t, results[c.UID].Err, test.Sprintf("claim %s was prepared", c.Name))
		}
		test.LessEq(t, 2*settleTime, time.Since(began), test.Sprint("the kubelet waits"))
	})
	s.hasFiles(good)
}

// TestTwoClaimsOnOneDevice: the second one is told who has it, and gets it when
// the first has ended.
func TestTwoClaimsOnOneDevice(t *testing.T) {
	s := serve(t, "hgx-h100")
	a, b := drivertest.Claim(1, dev0, dev1), drivertest.Claim(2, dev1)
	s.node.AddClaim(a, b)
	s.prepares(a)
	s.refuses(b, "claim team-a/claim-2", "device "+dev1, "in use by claim team-a/claim-1", "delete the pod of one of them")
	s.hasFiles(a)
	s.unprepares(a)
	s.prepares(b)
	s.hasFiles(b)
}

// TestNodeOnHost: a node that is missing in /dev, or another device's, is told
// instead of handed out.
func TestNodeOnHost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(path string) error
		want   string
	}{
		{"missing", func(string) error { return nil },
			"no such file or directory; is /dev a devtmpfs, and mounted into the driver's pod?"},
		{"another number", func(path string) error {
			return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		}, "is not character device 231:192"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, "hgx-h100")
			must.NoError(t, os.Remove(s.node.Node("uverbs0")))
			must.NoError(t, tc.change(s.node.Node("uverbs0")))
			c := drivertest.Claim(1, dev0)
			synctest.Test(t, func(*testing.T) {
				s.refuses(c, "claim team-a/claim-1: device "+dev0, "node /dev/infiniband/uverbs0", tc.want)
			})
			s.hasFiles()
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
			dir := drivertest.TempDir(t)
			mount(t, dir, "size=1m")
			s := serve(t, "hgx-h100", func(c *Config) { c.CDIDir = dir })
			c := drivertest.Claim(1, dev0)
			fill(t, dir)
			remount(t, dir, tc.options)
			s.refuses(c, "claim team-a/claim-1", dir, tc.want, "needs a writable CDI directory with free space on the node")
			for _, name := range drivertest.Files(t, dir) {
				test.Eq(t, "filler", name, test.Sprint("is left of the failed call"))
			}
			remount(t, dir, "rw,"+tc.mend)
			must.NoError(t, os.Remove(filepath.Join(dir, "filler")))
			ids, err := s.prepareOf(s.ctx, c)
			test.NoError(t, err)
			test.NoError(t, drivertest.CheckSpecs(dir, ids...))
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
	s := serve(t, "hgx-h100")
	c := drivertest.Claim(1, dev0)
	for _, step := range []struct {
		machine *fixture.Machine
		node    string
	}{
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1"), "uverbs0"},
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1", "uverbs0", "uverbs1"), "uverbs1"},
		{drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_5", "uverbs0", "uverbs5"), "uverbs5"},
		{drivertest.Swapped(t, "hgx-h100"), "uverbs0"},
	} {
		s.node.Become(t, step.machine)
		s.prepares(c)
		want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/" + step.node}
		test.SliceEqOp(t, want, drivertest.Nodes(drivertest.Spec(t, s.node.CDIDir, c)), test.Sprint("nodes"))
	}
}

// TestMissingNode: a spec whose node is not in /dev any more goes, whatever sysfs says.
func TestMissingNode(t *testing.T) {
	s := serve(t, "hgx-h100")
	c, other := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	s.prepares(c)
	must.NoError(t, os.Remove(s.node.Node("uverbs0")))
	synctest.Test(t, func(*testing.T) { s.refuses(c, dev0, "uverbs0") })
	test.Error(t, s.Restore(s.ctx))
	s.prepares(other)
	_, err := os.Stat(drivertest.SpecPath(s.node.CDIDir, c))
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("the spec"))
}
