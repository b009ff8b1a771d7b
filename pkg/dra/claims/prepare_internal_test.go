package claims

import (
	"context"
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

// TestPrepareTwice: a repeated call gives the same IDs and writes nothing anew.
func TestPrepareTwice(t *testing.T) {
	s := serve(t, "hgx-h100")
	c := drivertest.Claim(1, dev0, dev1)
	first := s.prepares(c)
	before := modified(t, drivertest.SpecPath(s.node.CDIDir, c))
	test.SliceEqOp(t, s.prepares(c), first, test.Sprint("IDs"))
	test.Eq(t, before, modified(t, drivertest.SpecPath(s.node.CDIDir, c)),
		test.Sprint("an equal spec was written again: every runtime of the node reads all specs anew"))
	s.hasFiles(c)
	want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}
	test.SliceEqOp(t, want, drivertest.Nodes(drivertest.Spec(t, s.node.CDIDir, c)), test.Sprint("nodes"))
	s.unprepares(c)
	s.hasFiles()
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
	s := serve(t, "hgx-h100")
	claims := []*resourceapi.ResourceClaim{
		drivertest.Claim(1, dev0), drivertest.Claim(2, dev1, dev2), drivertest.Monitor(3, dev0), drivertest.Monitor(4, dev1),
	}
	var wg sync.WaitGroup
	got := make([]string, 32)
	for i := range got {
		wg.Go(func() {
			ids, err := s.prepareOf(s.ctx, claims[i%len(claims)])
			test.NoError(t, err)
			got[i] = fmt.Sprint(ids)
		})
	}
	wg.Wait()
	for i := range got {
		test.Eq(t, got[i%len(claims)], got[i],
			test.Sprintf("call %d got %s, call %d %s", i, got[i], i%len(claims), got[i%len(claims)]))
	}
	s.hasFiles(claims...)
	test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir))
	s.unprepares(claims...)
	s.hasFiles()
}

// TestPrepareAfterRestart: the next driver gives the same IDs, and Unprepare of
// its predecessor's claims leaves nothing.
func TestPrepareAfterRestart(t *testing.T) {
	s := serve(t, "hgx-h100")
	c, other := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	first := s.prepares(c)
	s.prepares(other)
	s.restart()
	test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, first...))
	test.SliceEqOp(t, s.prepares(c), first, test.Sprint("IDs"))
	s.hasFiles(c, other)
	s.unprepares(c, other)
	s.hasFiles()
}

// TestEmptiedWhileRunning: the driver restores what someone removes, by itself,
// since the kubelet does not ask again within a boot.
func TestEmptiedWhileRunning(t *testing.T) {
	s := serve(t, "hgx-h100")
	claims := []*resourceapi.ResourceClaim{drivertest.Claim(1, dev0), drivertest.Claim(2, dev1), drivertest.Claim(3, dev2)}
	var ids []string
	for _, c := range claims {
		ids = append(ids, s.prepares(c)...)
	}
	defer s.watchSpecs()()
	for range 3 {
		empty(t, s.node.CDIDir)
		drivertest.Eventually(t, func() error { return drivertest.CheckSpecs(s.node.CDIDir, ids...) })
	}
	moved := filepath.Join(drivertest.TempDir(t), "moved")
	must.NoError(t, os.Rename(drivertest.SpecPath(s.node.CDIDir, claims[0]), moved))
	drivertest.Eventually(t, func() error { return drivertest.CheckSpecs(s.node.CDIDir, ids...) })
	s.hasFiles(claims...)
	s.unprepares(claims...)
	s.hasFiles() // and nothing brings them back
}

// watchSpecs restores specs until the returned function is called.
func (s *served) watchSpecs() (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.WatchSpecs(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
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
	s := serve(t, "hgx-h100")
	c := drivertest.Claim(1, dev0)
	ids := s.prepares(c)
	for _, remove := range []func(string) error{func(dir string) error { empty(t, dir); return nil }, os.RemoveAll} {
		must.NoError(t, remove(s.node.CDIDir))
		s.restart()
		test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
		test.SliceEqOp(t, s.prepares(c), ids, test.Sprint("IDs"))
		s.hasFiles(c)
	}
}

// TestUnprepare: twice, of the unknown, after a restart.
func TestUnprepare(t *testing.T) {
	s := serve(t, "hgx-h100")
	c, unknown := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	s.unprepares(unknown)
	s.prepares(c)
	s.unprepares(c, unknown)
	s.unprepares(c)
	s.hasFiles()
	s.restart()
	s.unprepares(c, unknown)
	s.hasFiles()
	s.prepares(c) // the device is free
}

// TestRestoreAgainstUnprepare: a spec that someone removes just when its claim
// ends is not brought back for good. The kubelet repeats an Unprepare that fails.
func TestRestoreAgainstUnprepare(t *testing.T) {
	s := serve(t, "hgx-h100")
	stop := s.watchSpecs()
	c := drivertest.Claim(1, dev0)
	for range 100 {
		s.prepares(c)
		var wg sync.WaitGroup
		wg.Go(func() { _ = os.Remove(drivertest.SpecPath(s.node.CDIDir, c)) }) // Unprepare may be first
		s.unprepares(c)
		wg.Wait()
		drivertest.Eventually(t, func() error {
			if files := drivertest.Files(t, s.node.CDIDir); len(files) > 0 {
				return fmt.Errorf("the CDI directory has %v", files)
			}
			return nil
		})
	}
	stop()
	s.hasFiles()
}

// TestRubbishIsRemoved: specs of claims that no record explains go at the next
// start. Files that are not ours stay.
func TestRubbishIsRemoved(t *testing.T) {
	s := serve(t, "hgx-h100")
	c := drivertest.Claim(1, dev0)
	s.prepares(c)
	spec, err := os.ReadFile(drivertest.SpecPath(s.node.CDIDir, c))
	must.NoError(t, err)
	foreign := []string{"nvidia.json", "rdma.dev-hca.yaml", "rdma.dev-claims.json"}
	for _, name := range append(foreign, "rdma.dev-claim_gone.json", "rdma.dev-claim_gone-too.yaml") {
		must.NoError(t, os.WriteFile(filepath.Join(s.node.CDIDir, name), spec, 0o644))
	}
	s.restart()
	want := slices.Sorted(slices.Values(append(foreign, "rdma.dev-claim_"+string(c.UID)+".json")))
	test.SliceEqOp(t, want, drivertest.Files(t, s.node.CDIDir), test.Sprint("the CDI directory"))
}

// TestEndOfOneClaim: a pod has two claims. When the one ends, the other keeps what it
// has; when that ends too, nothing is left.
func TestEndOfOneClaim(t *testing.T) {
	s := serve(t, "hgx-h100")
	a, b := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	s.prepares(a)
	ids := s.prepares(b)
	s.unprepares(a)
	s.hasFiles(b)
	test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
	s.unprepares(b)
	s.hasFiles()
}

// TestLateEndOfANamesake: a claim was deleted and made again under its name. The end of
// the first, which comes late, takes nothing from the second.
func TestLateEndOfANamesake(t *testing.T) {
	s := serve(t, "hgx-h100")
	first := drivertest.Claim(1, dev0)
	s.prepares(first)
	second := drivertest.Claim(2, dev1)
	second.Name = first.Name
	ids := s.prepares(second)
	s.unprepares(first)
	s.hasFiles(second)
	test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
}
