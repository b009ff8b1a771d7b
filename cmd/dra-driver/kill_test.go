package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestKill kills the driver with kill -9 at a random moment of Prepare, 40 times and 200 times in a long run
// (DRA_TEST_ROUNDS; DRA_TEST_SEED repeats a run). TestKillAtEachCall of internal/test/drivertest/faults misses no
// moment. Whatever the moment: no half
// written spec, no lost claim, the same IDs from the next driver, which recovers by
// itself what was prepared, and nothing left after Unprepare.
func TestKill(t *testing.T) {
	kills := 40
	if needs.IsLong() {
		kills = 200
	}
	random := seeded(t)
	n := drivertest.NewNode(t, "hgx-h100")
	live := drivertest.Claim(0, hcas[0])
	n.AddClaim(live)
	driver := n.Start(t, "", pairFile...)
	liveIDs := mustPrepare(t, n, live)
	window := callTime(t, n)
	answered := 0
	for round := range rounds(t, kills) {
		victims := victimsOf(round)
		n.AddClaim(victims...)
		moment := time.Duration(random.Int64N(int64(window)))
		ids := prepareAndKill(t, n, driver, victims, moment)
		checkAfterKill(t, n, round, append(ids, liveIDs))
		driver = restart(t, n)
		checkRecovered(t, n, round, victims, ids, liveIDs)
		for i, c := range victims {
			if ids[i] != nil {
				answered++
			}
			if again := mustPrepare(t, n, c); ids[i] != nil && !slices.Equal(ids[i], again) {
				t.Fatalf("round %d: IDs are %v, and were %v", round, again, ids[i])
			}
		}
		mustUnprepare(t, n, victims...)
		must.False(t, t.Failed(), must.Sprintf("failed in round %d, killed after %v", round, moment))
	}
	t.Logf("%d calls were answered before the kill, %d were not", answered, rounds(t, kills)*len(victimsOf(0))-answered)
	mustUnprepare(t, n, live)
	checkNothingLeft(t, n)
	checkTemporaryFilesGo(t, n, driver)
}

// pairFile publishes hcas[2] and hcas[3] for many claims, each by itself and both as
// the group "pair".
var pairFile = []string{"--config", "testdata/pair.yaml"}

// victimsOf makes the claims of a round: one has an HCA alone, the others meet at an
// HCA by its shares and by a group.
func victimsOf(round int) []*resourceapi.ResourceClaim {
	first := 1 + 4*round
	limits := map[string]string{"handles": "10"}
	return []*resourceapi.ResourceClaim{
		drivertest.Claim(first, hcas[1]),
		drivertest.Share(first+1, limits, "shared-"+hcas[2]),
		drivertest.Share(first+2, limits, "shared-"+hcas[2]),
		drivertest.Share(first+3, nil, "group-pair"),
	}
}

// callTime measures how long the calls of a round take.
func callTime(t *testing.T, n *drivertest.Node) time.Duration {
	t.Helper()
	var times []time.Duration
	for i := range 11 {
		victims := victimsOf(100_000 + i)
		n.AddClaim(victims...)
		began := time.Now()
		prepareAll(t, n, victims)
		times = append(times, time.Since(began))
		mustUnprepare(t, n, victims...)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// prepareAll prepares claims in parallel calls, and returns the IDs of those that
// were answered.
func prepareAll(t *testing.T, n *drivertest.Node, claims []*resourceapi.ResourceClaim) [][]string {
	ids := make([][]string, len(claims))
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() { ids[i], _ = prepared(t, n, c) }) // a call may die with its driver
	}
	wg.Wait()
	return ids
}

func prepareAndKill(t *testing.T, n *drivertest.Node, driver *drivertest.Process, claims []*resourceapi.ResourceClaim,
	moment time.Duration) [][]string {
	t.Helper()
	killed := make(chan struct{})
	time.AfterFunc(moment, func() {
		defer close(killed)
		driver.Kill()
	})
	ids := prepareAll(t, n, claims)
	<-killed
	return ids
}

// checkAfterKill looks at what a dead driver left: what the runtime reads is whole,
// and has all devices that the kubelet was told of.
func checkAfterKill(t *testing.T, n *drivertest.Node, round int, ids [][]string) {
	t.Helper()
	must.NoError(t, drivertest.CheckSpecs(n.CDIDir, slices.Concat(ids...)...),
		must.Sprintf("round %d, after the kill", round))
}

// restart starts the next driver, as the kubelet does with its container: the
// dead one's sockets are still there.
func restart(t *testing.T, n *drivertest.Node) *drivertest.Process {
	t.Helper()
	stale, err := filepath.Glob(filepath.Join(n.Dir, "plugins_registry", "*.sock"))
	if err != nil || len(stale) != 1 {
		t.Fatalf("sockets of the dead driver: %v, %v", stale, err)
	}
	n.Disconnect()
	return n.Start(t, "", pairFile...)
}

// checkRecovered checks that a claim has a spec just when it has a record, as soon
// as the next driver serves the kubelet: a claim that was answered has both.
func checkRecovered(t *testing.T, n *drivertest.Node, round int, victims []*resourceapi.ResourceClaim, ids [][]string,
	live []string) {
	t.Helper()
	must.NoError(t, drivertest.CheckSpecs(n.CDIDir, live...), must.Sprintf("round %d, after the restart", round))
	for i, c := range victims {
		_, errRecord := os.Stat(filepath.Join(n.RecordDir(), string(c.UID)+".json"))
		_, errSpec := os.Stat(drivertest.SpecPath(n.CDIDir, c))
		if (errRecord == nil) != (errSpec == nil) || (ids[i] != nil && errRecord != nil) {
			t.Fatalf("round %d: claim %d, answered %v: record %v, spec %v", round, i, ids[i] != nil, errRecord, errSpec)
		}
	}
}

// checkTemporaryFilesGo checks that files in the making, which a killed driver
// leaves, do not pile up: once they are old the next driver removes them.
func checkTemporaryFilesGo(t *testing.T, n *drivertest.Node, driver *drivertest.Process) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	for i, dir := range []string{n.CDIDir, n.RecordDir()} {
		left := filepath.Join(dir, fmt.Sprintf(".rdma.dev-%d.tmp", i))
		must.NoError(t, os.WriteFile(left, []byte("{"), 0o644))
		for _, name := range drivertest.Files(t, dir) {
			must.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
		}
	}
	driver.Kill()
	restart(t, n)
	for _, dir := range []string{n.CDIDir, n.RecordDir()} {
		if left := drivertest.Files(t, dir); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}
