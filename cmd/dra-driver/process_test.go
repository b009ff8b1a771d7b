package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// The devices of the fixture machine hgx-h100.
var hcas = []string{"pci-0000-19-00-0", "pci-0000-29-00-0", "pci-0000-3b-00-0", "pci-0000-4b-00-0"}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := drivertest.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// prepared calls Prepare for one claim and returns its device IDs.
func prepared(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) ([]string, error) {
	t.Helper()
	response, err := n.Prepare(drivertest.Context(t), c)
	if err != nil {
		return nil, err
	}
	return drivertest.Devices(response, c)
}

func mustPrepare(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) []string {
	t.Helper()
	ids, err := prepared(t, n, c)
	if err == nil {
		err = drivertest.CheckSpecs(n.CDIDir, ids...)
	}
	must.NoError(t, err, must.Sprintf("prepare claim %s", c.Name))
	return ids
}

func mustUnprepare(t *testing.T, n *drivertest.Node, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	response, err := n.Unprepare(drivertest.Context(t), claims...)
	must.NoError(t, err)
	for uid, answer := range response.Claims {
		test.Eq(t, "", answer.Error, test.Sprintf("unprepare claim %s", uid))
	}
}

// TestStop: a signal ends the driver with exit code 0, without its sockets, and
// with slices and claims as they were.
func TestStop(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	p := n.Start(t, "")
	c := drivertest.Claim(1, hcas[0])
	n.AddClaim(c)
	ids := mustPrepare(t, n, c)
	drivertest.Eventually(t, func() error {
		if len(n.Slices()) == 0 {
			return fmt.Errorf("nothing is published")
		}
		return nil
	})
	test.Eq(t, exitcode.OK, p.Terminate(), test.Sprint("exit code"))
	for _, pattern := range []string{"plugins/rdma.dev/*.sock", "plugins_registry/*"} {
		if left, err := filepath.Glob(filepath.Join(n.Dir, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left of the sockets: %v, %v", left, err)
		}
	}
	test.NotEq(t, 0, len(n.Slices()), test.Sprint("the slices are gone"))
	test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
}

// TestLeave: the last driver of a node without prepared claims takes its files with
// it, and its hooks, but for those that a spec still names. While a claim is prepared,
// or another driver is there, all stays.
func TestLeave(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	dir, source := drivertest.TempDir(t), filepath.Join(drivertest.TempDir(t), "hook")
	if err := errors.Join(os.WriteFile(source, []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "not-ours"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	hook := []string{"--hook-dir", dir, "--hook-source", source}
	check := func(when string, want ...string) {
		t.Helper()
		got := slices.Concat(drivertest.Files(t, dir), drivertest.Files(t, n.StateDir), drivertest.Files(t, n.PluginDir()))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s the node has %v, want %v", when, got, want)
		}
	}
	stop := func(p *drivertest.Process) {
		t.Helper()
		test.Eq(t, exitcode.OK, p.Terminate(), test.Sprint("exit code"))
		n.Disconnect()
	}
	const hookName = "rdma-hook-devel"
	stays := []string{"claims", "claims.lock", "devices", "hcas.json", "metadata", "not-ours", hookName, "state.json"}

	driver := n.Start(t, "", hook...)
	c := drivertest.Claim(1, hcas[0])
	n.AddClaim(c)
	mustPrepare(t, n, c)
	stop(driver)
	check("with a prepared claim", stays...)

	old := n.Start(t, "11111111-0000-4000-8000-000000000001", hook...)
	next := n.Start(t, "22222222-0000-4000-8000-000000000002", hook...)
	mustUnprepare(t, n, c)
	test.Eq(t, exitcode.OK, old.Terminate(), test.Sprint("exit code"))
	n.WaitForPlugins(1)
	got := drivertest.Files(t, n.StateDir)
	for _, name := range stays[:4] {
		test.True(t, slices.Contains(got, name),
			test.Sprintf("with another driver the node has %v, want %s", got, name))
	}
	stop(next)
	check("with nothing to do", "not-ours")

	again := n.Start(t, "", hook...)
	mustPrepare(t, n, c)
	mustUnprepare(t, n, c)
	spec := filepath.Join(n.CDIDir, "example.com-nic.json")
	names := fmt.Sprintf(`{"containerEdits": {"hooks": [{"path": %q}]}}`, filepath.Join(dir, hookName))
	must.NoError(t, os.WriteFile(spec, []byte(names), 0o644))
	stop(again)
	check("with a spec that names the hook", "not-ours", hookName)
}

// TestRollingUpdate: two drivers at once, as during an update. Of two claims on
// one device exactly one wins, whichever driver is asked; both know all claims;
// the old one's end takes nothing with it.
func TestRollingUpdate(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	old := n.Start(t, "11111111-0000-4000-8000-000000000001")
	n.Start(t, "22222222-0000-4000-8000-000000000002")
	rollingUpdate(t, n, old)
	checkNothingLeft(t, n)
}

// rollingUpdate is what happens to claims while two drivers are on a node, until the old one ends.
func rollingUpdate(t *testing.T, n *drivertest.Node, old *drivertest.Process) {
	t.Helper()
	keep := drivertest.Claim(1, hcas[0])
	n.AddClaim(keep)
	ids := mustPrepare(t, n, keep)
	for round := range rounds(t, 50) {
		a, b := drivertest.Claim(2*round+2, hcas[1], hcas[2]), drivertest.Claim(2*round+3, hcas[2], hcas[1])
		n.AddClaim(a, b)
		claims, errs := []*resourceapi.ResourceClaim{a, b}, make([]error, 2)
		var wg sync.WaitGroup
		for i, c := range claims {
			wg.Go(func() {
				response, err := n.PrepareAt(drivertest.Context(t), i, c)
				if err == nil {
					_, err = drivertest.Devices(response, c)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		must.NotEq(t, (errs[1] == nil), (errs[0] == nil),
			must.Sprintf("round %d: want exactly one winner, got %v and %v", round, errs[0], errs[1]))
		for i, err := range errs {
			if err != nil && !strings.Contains(err.Error(), "in use by claim team-a/"+claims[1-i].Name) {
				t.Fatalf("round %d: the loser is told %v", round, err)
			}
		}
		mustUnprepare(t, n, a, b)
	}
	test.Eq(t, exitcode.OK, old.Terminate(), test.Sprint("exit code of the old driver"))
	n.WaitForPlugins(1)
	test.SliceEqOp(t, mustPrepare(t, n, keep), ids, test.Sprint("IDs"))
	mustUnprepare(t, n, keep)
}

// rounds is n, or DRA_TEST_ROUNDS, or less with -short.
func rounds(t *testing.T, n int) int {
	t.Helper()
	if s := os.Getenv("DRA_TEST_ROUNDS"); s != "" {
		rounds, err := strconv.Atoi(s)
		must.NoError(t, err, must.Sprint("DRA_TEST_ROUNDS"))
		return rounds
	}
	if testing.Short() {
		return n / 10
	}
	return n
}

// seeded returns random numbers, and prints the seed that repeats them.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := drivertest.Seed(t, "DRA_TEST_SEED")
	return rand.New(rand.NewPCG(seed, seed))
}

// checkNothingLeft checks that no claim has a file any more.
func checkNothingLeft(t *testing.T, n *drivertest.Node) {
	t.Helper()
	for _, dir := range []string{n.CDIDir, n.RecordDir()} {
		if left := slices.DeleteFunc(drivertest.Files(t, dir), drivertest.Temporary); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}
