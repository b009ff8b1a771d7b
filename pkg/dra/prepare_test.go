package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// The devices of the fixture machine hgx-h100, in order of their ibdev names.
const (
	dev0 = "pci-0000-19-00-0" // mlx5_0, uverbs0
	dev1 = "pci-0000-29-00-0" // mlx5_1, uverbs1
	dev2 = "pci-0000-3b-00-0" // mlx5_2, uverbs2
)

// TestPrepareTwice: a repeated call gives the same IDs and writes nothing anew.
func TestPrepareTwice(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	c := drivertest.Claim(1, dev0, dev1)
	n.AddClaim(c)
	first := prepare(t, n, c)
	before := modified(t, drivertest.SpecPath(n.CDIDir, c))
	test.SliceEqOp(t, prepare(t, n, c), first, test.Sprint("IDs"))
	test.Eq(t, before, modified(t, drivertest.SpecPath(n.CDIDir, c)),
		test.Sprint("an equal spec was written again: every runtime of the node reads all specs anew"))
	wantFiles(t, n, c)
	want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}
	test.SliceEqOp(t, want, drivertest.Nodes(drivertest.Spec(t, n.CDIDir, c)), test.Sprint("nodes"))
	unprepare(t, n, c)
	wantFiles(t, n)
}

// modified identifies a version of a file.
func modified(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	must.NoError(t, err)
	return info.ModTime().String()
}

// TestPrepareInParallel: 32 calls at once, for the same claims and for others.
func TestPrepareInParallel(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	claims := []*resourceapi.ResourceClaim{drivertest.Claim(1, dev0), drivertest.Claim(2, dev1, dev2), drivertest.Monitor(3, dev0), drivertest.Monitor(4, dev1)}
	n.AddClaim(claims...)
	var wg sync.WaitGroup
	got := make([]string, 32)
	for i := range got {
		wg.Go(func() {
			response, err := n.Prepare(drivertest.Context(t), claims[i%len(claims)])
			if err != nil {
				t.Error(err)
				return
			}
			ids, err := drivertest.Devices(response, claims[i%len(claims)])
			test.NoError(t, err)
			got[i] = fmt.Sprint(ids)
		})
	}
	wg.Wait()
	for i := range got {
		test.Eq(t, got[i%len(claims)], got[i],
			test.Sprintf("call %d got %s, call %d %s", i, got[i], i%len(claims), got[i%len(claims)]))
	}
	wantFiles(t, n, claims...)
	test.NoError(t, drivertest.CheckSpecs(n.CDIDir))
	unprepare(t, n, claims...)
	wantFiles(t, n)
}

// TestPrepareAfterRestart: the next driver gives the same IDs, and Unprepare of
// its predecessor's claims leaves nothing.
func TestPrepareAfterRestart(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c, other := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(c, other)
	first := prepare(t, n, c)
	prepare(t, n, other)
	d.stop()
	start(t, n)
	test.NoError(t, drivertest.CheckSpecs(n.CDIDir, first...))
	test.SliceEqOp(t, prepare(t, n, c), first, test.Sprint("IDs"))
	wantFiles(t, n, c, other)
	unprepare(t, n, c, other)
	wantFiles(t, n)
}

// TestEmptiedWhileRunning: the driver restores what someone removes, by itself,
// since the kubelet does not ask again within a boot.
func TestEmptiedWhileRunning(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	claims := []*resourceapi.ResourceClaim{drivertest.Claim(1, dev0), drivertest.Claim(2, dev1), drivertest.Claim(3, dev2)}
	n.AddClaim(claims...)
	var ids []string
	for _, c := range claims {
		ids = append(ids, prepare(t, n, c)...)
	}
	for range 3 {
		empty(t, n.CDIDir)
		drivertest.Eventually(t, func() error { return drivertest.CheckSpecs(n.CDIDir, ids...) })
	}
	moved := filepath.Join(drivertest.TempDir(t), "moved")
	must.NoError(t, os.Rename(drivertest.SpecPath(n.CDIDir, claims[0]), moved))
	drivertest.Eventually(t, func() error { return drivertest.CheckSpecs(n.CDIDir, ids...) })
	wantFiles(t, n, claims...)
	unprepare(t, n, claims...)
	wantFiles(t, n) // and nothing brings them back
}

func empty(t *testing.T, dir string) {
	t.Helper()
	for _, name := range drivertest.Files(t, dir) {
		err := os.Remove(filepath.Join(dir, name))
		must.True(t, err == nil || os.IsNotExist(err), must.Sprint(err))
	}
}

// TestEmptiedWhileDown: specs are back before the kubelet is served, also when the
// directory itself is gone.
func TestEmptiedWhileDown(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	ids := prepare(t, n, c)
	for _, remove := range []func(string) error{func(dir string) error { empty(t, dir); return nil }, os.RemoveAll} {
		d.stop()
		must.NoError(t, remove(n.CDIDir))
		d = start(t, n)
		test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
		test.SliceEqOp(t, prepare(t, n, c), ids, test.Sprint("IDs"))
		wantFiles(t, n, c)
	}
}

// TestUnprepare: twice, of the unknown, after a restart.
func TestUnprepare(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c, unknown := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(c)
	unprepare(t, n, unknown)
	prepare(t, n, c)
	unprepare(t, n, c, unknown)
	unprepare(t, n, c)
	wantFiles(t, n)
	d.stop()
	start(t, n)
	unprepare(t, n, c, unknown)
	wantFiles(t, n)
	prepare(t, n, c) // the device is free
}

// TestRestoreAgainstUnprepare: a spec that someone removes just when its claim
// ends is not brought back for good. The kubelet repeats an Unprepare that fails.
func TestRestoreAgainstUnprepare(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	for range 100 {
		prepare(t, n, c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = os.Remove(drivertest.SpecPath(n.CDIDir, c)) }) // Unprepare may be first
		unprepare(t, n, c)
		wg.Wait()
		drivertest.Eventually(t, func() error {
			if files := drivertest.Files(t, n.CDIDir); len(files) > 0 {
				return fmt.Errorf("the CDI directory has %v", files)
			}
			return nil
		})
	}
	d.stop() // which waits for the restorer
	wantFiles(t, n)
}

// TestRubbishIsRemoved: specs of claims that no record explains go at the next
// start. Files that are not ours stay.
func TestRubbishIsRemoved(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	d.stop()
	spec, err := os.ReadFile(drivertest.SpecPath(n.CDIDir, c))
	must.NoError(t, err)
	foreign := []string{"nvidia.json", "rdma.dev-hca.yaml", "rdma.dev-claims.json"}
	for _, name := range append(foreign, "rdma.dev-claim_gone.json", "rdma.dev-claim_gone-too.yaml") {
		must.NoError(t, os.WriteFile(filepath.Join(n.CDIDir, name), spec, 0o644))
	}
	start(t, n)
	want := slices.Sorted(slices.Values(append(foreign, "rdma.dev-claim_"+string(c.UID)+".json")))
	test.SliceEqOp(t, want, drivertest.Files(t, n.CDIDir), test.Sprint("the CDI directory"))
}

// TestAPICalls: one GET for each claim, nothing written, and no limit of the
// client's own: 64 claims at 5 a second would take over 10 s.
func TestAPICalls(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	d.says("Publishing ResourceSlices")
	drivertest.Eventually(t, func() error { return drivertest.Published(n) })
	const claims = 64
	for i := range claims {
		n.AddClaim(drivertest.Monitor(i, dev0))
	}
	gets, writes := n.Count(drivertest.GetClaim), n.Writes()
	for i := range claims {
		prepare(t, n, drivertest.Monitor(i, dev0))
	}
	test.Eq(t, claims, n.Count(drivertest.GetClaim)-gets, test.Sprint("claims took"))
	for i := range claims {
		unprepare(t, n, drivertest.Monitor(i, dev0))
	}
	test.Eq(t, claims, n.Count(drivertest.GetClaim)-gets, test.Sprint("Unprepare asked for claims"))
	got := n.Writes() - writes
	test.Eq(t, 0, got, test.Sprintf("the API server was written to %d times: %v", got, n.Requests()))
}
