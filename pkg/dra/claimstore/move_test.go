package claimstore_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

func enter(t *testing.T, dir, former string) *claimstore.Presence {
	t.Helper()
	p, err := claimstore.Enter(dir, former, thisBoot)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leave ends a presence, which must not be the last of a node with prepared claims.
func leave(t *testing.T, p *claimstore.Presence, wantLast bool) {
	t.Helper()
	last, err := p.Leave(func() error { return nil })
	if err != nil || last != wantLast {
		t.Fatalf("the presence in %s ended with last=%v and error %v, want last=%v", p.Dir(), last, err, wantLast)
	}
}

// earlier is the store of a driver of an earlier version with two claims, one with files for
// containers, and what it remembers.
func earlier(t *testing.T) string {
	t.Helper()
	former := tempDir(t)
	s := open(t, former, thisBoot)
	metadata := claimstore.MetadataDir(former)
	first, second := planOf("u1", "d1", "d2"), sharesOf("u2", "d3")
	first.Metadata = &plan.Metadata{Dir: filepath.Join(metadata, "u1")}
	first.NCCLTopology = filepath.Join(metadata, "u1", "nccl-topology.xml")
	claim(t, s, first)
	claim(t, s, second)
	write(t, "{}", metadata, "u1", "r0.json")
	write(t, "", former, "dra.sock")
	if err := s.Remember("hcas", []string{"d1"}); err != nil {
		t.Fatal(err)
	}
	return former
}

// TestTakeOver: the first driver of this version that is alone on a node takes the records,
// with the paths in them; HCAs stay taken. What the earlier version needs to start is gone.
func TestTakeOver(t *testing.T) {
	former, dir := earlier(t), tempDir(t)
	foreign := `{"version":99,"bootID":"boot-2","claim":{"uid":"u3"}}`
	write(t, foreign, former, "claims", "u3.json")
	write(t, "", former, "devices", "d4", "u3")
	write(t, `{"version":1,"bootID":"boot-1","claim":{"uid":"u4"}}`, former, "claims", "u4.json")
	for range 2 { // the second finds nothing to do
		p := enter(t, dir, former)
		if p.Dir() != dir {
			t.Fatalf("it works in %s, want %s", p.Dir(), dir)
		}
		leave(t, p, false)
	}
	s := open(t, dir, thisBoot)
	first, err := s.Get("u1")
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(claimstore.MetadataDir(dir), "u1")
	if first.Metadata.Dir != moved || first.NCCLTopology != filepath.Join(moved, "nccl-topology.xml") {
		t.Errorf("files of the claim are in %q and %q, want both in %q", first.Metadata.Dir, first.NCCLTopology, moved)
	}
	if second, err := s.Get("u2"); err != nil || second == nil {
		t.Errorf("the second claim is %v, with error %v", second, err)
	}
	if _, err := s.Get("u3"); err == nil || !strings.Contains(err.Error(), "written by a newer driver") {
		t.Errorf("the record of a newer version is read with error %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "claims", "u4.json")); got != nil {
		t.Errorf("the record of another boot was taken over: %s", got)
	}
	for device, want := range map[string]string{"d1": "in use by claim team-a/claim-u1", "d3": "in use by claim team-a/claim-u2", "d4": "may be in use"} {
		if err := s.Claim(context.Background(), planOf("u9", device)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("device %s is claimed again with error %v, want %q", device, err, want)
		}
	}
	var hcas []string
	if ok, err := s.Recall("hcas", &hcas); !ok || err != nil || !slices.Equal(hcas, []string{"d1"}) {
		t.Errorf("what was remembered is %v (%v), %v", hcas, ok, err)
	}
	if left := listed(t, former); !slices.Equal(left, []string{"claims", "dra.sock"}) {
		t.Errorf("the former directory has %v", left)
	}
	if _, err := claimstore.Open(former, thisBoot); err == nil || !strings.Contains(err.Error(), filepath.Join(former, "claims")) {
		t.Errorf("an earlier version starts with error %v, want one that names the sign", err)
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestBesideEarlierVersion: while a driver of an earlier version is on the node all work in its
// directory, so that locks and records are the same. One that starts without it moves.
func TestBesideEarlierVersion(t *testing.T) {
	former, dir := earlier(t), tempDir(t)
	old, err := os.Open(former)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	beside := enter(t, dir, former)
	if beside.Dir() != former {
		t.Fatalf("beside an earlier version it works in %s, want %s", beside.Dir(), former)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	next := enter(t, dir, former)
	if next.Dir() != former {
		t.Errorf("beside one that works in %s, the next does in %s", former, next.Dir())
	}
	leave(t, beside, false)
	leave(t, next, false)
	alone := enter(t, dir, former)
	if alone.Dir() != dir {
		t.Errorf("alone it works in %s, want %s", alone.Dir(), dir)
	}
	wantPlans(t, open(t, dir, thisBoot), "u1", "u2")
	leave(t, alone, false)
}

// TestLastLeaves: with no claim prepared the last driver takes the sign with it, and an earlier
// version can start.
func TestLastLeaves(t *testing.T) {
	former, dir := tempDir(t), tempDir(t)
	p := enter(t, dir, former)
	open(t, dir, thisBoot)
	leave(t, p, true)
	if left := append(listed(t, former), listed(t, dir)...); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	open(t, former, thisBoot)
}

// TestOtherStateDir: a driver that is to keep records elsewhere than the claims of this boot
// have them does not start. After a boot it does.
func TestOtherStateDir(t *testing.T) {
	former, dir, other := earlier(t), tempDir(t), tempDir(t)
	leave(t, enter(t, dir, former), false)
	if _, err := claimstore.Enter(other, former, thisBoot); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "drain the node") {
		t.Errorf("the error is %v, want one that names %s and says what to do", err, dir)
	}
	p, err := claimstore.Enter(other, former, claimstore.Boot{ID: "boot-3"})
	if err != nil || p.Dir() != other {
		t.Fatalf("after a boot: %v", err)
	}
}

// TestTakeOverAgain: whatever moment the one that takes over dies at, the next one finishes.
func TestTakeOverAgain(t *testing.T) {
	former, dir := earlier(t), tempDir(t)
	write(t, "half", dir, "claims", "u1.json")
	write(t, "", dir, "devices", "d1", "u1")
	write(t, "{}", former, "claims.moved", "u0.json")
	leave(t, enter(t, dir, former), false)
	wantPlans(t, open(t, dir, thisBoot), "u1", "u2")
	if left := listed(t, former); !slices.Equal(left, []string{"claims", "dra.sock", "metadata"}) {
		t.Errorf("the former directory has %v", left)
	}
}
