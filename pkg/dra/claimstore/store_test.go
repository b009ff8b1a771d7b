package claimstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var thisBoot = claimstore.Boot{ID: "boot-2", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// newStore opens a store in memory, where that is possible: the tests write many
// small files.
func newStore(t testing.TB) (*claimstore.Store, string) {
	t.Helper()
	dir := tempDir(t)
	return open(t, dir, thisBoot), dir
}

func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "claimstore-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func open(t testing.TB, dir string, boot claimstore.Boot) *claimstore.Store {
	t.Helper()
	s, err := claimstore.Open(dir, boot)
	must.NoError(t, err)
	return s
}

// planOf makes the plan of a claim for devices, which it uses alone.
func planOf(uid types.UID, devices ...string) *plan.Plan {
	p := &plan.Plan{UID: uid, Namespace: "team-a", Name: "claim-" + string(uid)}
	for i, d := range devices {
		p.Devices = append(p.Devices, plan.Device{
			Request: fmt.Sprintf("r%d", i), Pool: "node1", Device: d,
			Settings: plan.Settings{Memlock: "unlimited", Nodes: rdma.DefaultClasses},
		})
	}
	return p
}

func sharesOf(uid types.UID, device string) *plan.Plan {
	p := planOf(uid, device)
	p.Devices[0].ShareID = &uid
	return p
}

// groupOf makes the plan of a claim for a group.
func groupOf(uid types.UID, members ...string) *plan.Plan {
	p := sharesOf(uid, "group-all")
	p.Devices[0].Members = members
	return p
}

func claim(t testing.TB, s *claimstore.Store, p *plan.Plan) {
	t.Helper()
	must.NoError(t, s.Claim(context.Background(), p))
}

// wantPlans checks which claims a store remembers.
func wantPlans(t *testing.T, s *claimstore.Store, uids ...types.UID) {
	t.Helper()
	plans, err := s.List()
	test.NoError(t, err)
	var got []types.UID
	for _, p := range plans {
		got = append(got, p.UID)
	}
	slices.Sort(got)
	test.SliceEqOp(t, uids, got, test.Sprint("the store remembers"))
}

// holders lists the names in the directory of a device.
func holders(t *testing.T, dir, device string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "devices", device))
	must.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func write(t *testing.T, content string, elements ...string) {
	t.Helper()
	path := filepath.Join(elements...)
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must.NoError(t, os.WriteFile(path, []byte(content), 0o640))
}

func TestClaimGetRemove(t *testing.T) {
	s, _ := newStore(t)
	want := planOf("u1", "d2", "d1")
	for range 2 { // a claim prepared again is no error
		claim(t, s, want)
		got, err := s.Get("u1")
		must.NoError(t, err)
		test.Eq(t, want, got, test.Sprint("plan"))
		wantPlans(t, s, "u1")
	}
	for range 2 { // removed again, or never known: no error
		must.NoError(t, s.Remove("u1"))
		p, err := s.Get("u1")
		test.True(t, p == nil && err == nil, test.Sprintf("after the end the store has %v, %v", p, err))
		wantPlans(t, s)
	}
}

// A claim that is prepared with other settings is remembered with those.
func TestClaimAgainWithOtherSettings(t *testing.T) {
	s, _ := newStore(t)
	p := planOf("u1", "d1")
	claim(t, s, p)
	p.Devices[0].Settings.Memlock = "1Gi"
	claim(t, s, p)
	got, err := s.Get("u1")
	test.True(t, err == nil && got.Devices[0].Settings.Memlock == "1Gi",
		test.Sprintf("remembered %+v, %v", got, err))
}

// TestSecondClaim: who may have a device beside whom. plan.Overlap has the rules;
// here they must reach the second claim as an error, or not.
func TestSecondClaim(t *testing.T) {
	admin := planOf("u2", "d1")
	admin.Devices[0].AdminAccess = true
	for _, tc := range []struct {
		name          string
		first, second *plan.Plan
		refused       bool
	}{
		{"exclusive twice", planOf("u1", "d1"), planOf("u2", "d1"), true},
		{"one of several", planOf("u1", "d1", "d2"), planOf("u2", "d2", "d3"), true},
		{"another device", planOf("u1", "d1"), planOf("u2", "d2"), false},
		{"shares", sharesOf("u1", "d1"), sharesOf("u2", "d1"), false},
		{"share of an exclusive device", planOf("u1", "d1"), sharesOf("u2", "d1"), true},
		{"monitoring", planOf("u1", "d1"), admin, false},
		{"share of an HCA in use", planOf("u1", "d1"), sharesOf("u2", "shared-d1"), true},
		{"HCA with shares", sharesOf("u1", "shared-d1"), planOf("u2", "d1"), true},
		{"shared device twice without shares", planOf("u1", "shared-d1"), planOf("u2", "shared-d1"), true},
		{"group with an HCA in use", planOf("u1", "d2"), groupOf("u2", "d1", "d2"), true},
		{"member of a group", groupOf("u1", "d1", "d2"), planOf("u2", "d2"), true},
		{"HCA beside a group", groupOf("u1", "d1", "d2"), planOf("u2", "d3"), false},
		{"share of a member of a group", groupOf("u1", "d1", "d2"), sharesOf("u2", "shared-d2"), false},
		{"group twice", groupOf("u1", "d1", "d2"), groupOf("u2", "d1", "d2"), false},
		{"group, and a member that moved in", groupOf("u1", "d1"), groupOf("u2", "d1", "d2"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := newStore(t)
			claim(t, s, tc.first)
			err := s.Claim(context.Background(), tc.second)
			must.Eq(t, tc.refused, (err != nil), must.Sprintf("error is %v, want one", err))
			if tc.refused {
				for _, part := range []string{"claim team-a/claim-u2: ", "in use by claim team-a/claim-u1 (u1)",
					"delete the pod of one of them"} {
					test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
				}
				wantPlans(t, s, "u1")
				claim(t, s, tc.first) // the winner is not disturbed
				must.NoError(t, s.Remove("u1"))
				claim(t, s, tc.second)
				wantPlans(t, s, "u2")
			}
		})
	}
}

// A device's directory forgets claims that ended, so it does not grow.
func TestStaleHoldersAreDropped(t *testing.T) {
	s, dir := newStore(t)
	for i := range 5 {
		uid := types.UID(fmt.Sprintf("ended%d", i))
		claim(t, s, sharesOf(uid, "d1"))
		must.NoError(t, s.Remove(uid))
	}
	claim(t, s, planOf("moved", "d1"))
	claim(t, s, planOf("moved", "d2")) // allocated anew without an Unprepare between
	claim(t, s, planOf("live", "d1"))
	test.SliceEqOp(t, []string{"live"}, holders(t, dir, "d1"), test.Sprint("holders of d1"))
	wantPlans(t, s, "live", "moved")
}

// Names of shares are looked through when they are many, so that they are bounded.
func TestStaleSharesAreDropped(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, sharesOf("live", "d1"))
	for i := range 3 * 256 {
		uid := types.UID(fmt.Sprintf("ended%d", i))
		claim(t, s, sharesOf(uid, "d1"))
		must.NoError(t, s.Remove(uid))
		must.LessEq(t, 256+1, len(holders(t, dir, "d1")), must.Sprint("d1"))
	}
	test.True(t, slices.Contains(holders(t, dir, "d1"), "live.shared"),
		test.Sprint("the name of the live claim was dropped"))
	test.Error(t, s.Claim(context.Background(), planOf("whole", "d1")),
		test.Sprint("an HCA with a share was given away"))
	got := holders(t, dir, "d1")
	test.Len(t, 1, got, test.Sprintf("after a look at all holders of d1 there are %v, want the live one", got))
}

// A driver of an older version does not mark who shares; nor is a claim marked that changed
// how it uses an HCA.
func TestUnmarkedShare(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, sharesOf("u1", "d1"))
	err := os.Rename(filepath.Join(dir, "devices", "d1", "u1.shared"),
		filepath.Join(dir, "devices", "d1", "u1"))
	must.NoError(t, err)
	claim(t, s, sharesOf("u2", "d1"))
	for _, uid := range []types.UID{"u3", "u4"} {
		test.Error(t, s.Claim(context.Background(), planOf(uid, "d1")),
			test.Sprintf("an HCA with shares was given to %s", uid))
	}
	wantPlans(t, s, "u1", "u2")
}

// Records of another boot are void: the kubelet prepares their claims again.
func TestOtherBoot(t *testing.T) {
	before, dir := newStore(t)
	claim(t, before, planOf("u1", "d1"))
	claim(t, before, planOf("u2", "d2"))
	s := open(t, dir, claimstore.Boot{ID: "boot-3", Time: time.Now()})
	wantPlans(t, s)
	claim(t, s, planOf("u3", "d1"))
	claim(t, s, planOf("u2", "d2"))
	voided, err := s.Void()
	test.True(t, err == nil && slices.Equal(voided, []types.UID{"u1"}),
		test.Sprintf("voided %v, %v, want u1", voided, err))
	wantPlans(t, s, "u2", "u3")
	_, err = os.Stat(filepath.Join(dir, "claims", "u1.json"))
	test.True(t, os.IsNotExist(err), test.Sprintf("the record of another boot is still there: %v", err))
}

const newer = `{"version":4,"bootID":"boot-2","claim":{"uid":"bad","namespace":"n","name":"c","devices":[{"device":"d1"}]}}`

// badRecords cannot be understood by this driver.
var badRecords = map[string]struct{ content, want string }{
	"half written":       {`{"version":1,"bootID":"boot-2","cla`, "unexpected end of JSON"},
	"empty":              {"", "unexpected end of JSON"},
	"not a record":       {"[]", "cannot unmarshal"},
	"newer":              {newer, "written by a newer driver or by something else; drain the node"},
	"of another claim":   {`{"version":1,"bootID":"boot-2","claim":{"uid":"other"}}`, `version 1 of claim "other"`},
	"without a claim":    {`{"version":1,"bootID":"boot-2"}`, `of claim ""`},
	"binary rubbish":     {"\x00\x01\x02", "invalid character"},
	"a directory beside": {`{"bootID":"boot-2"`, "unexpected end of JSON"},
}

// A record that cannot be read is taken for a claim in use: nobody gets its
// devices. It hides no other claim.
func TestBadRecord(t *testing.T) {
	for name, tc := range badRecords {
		t.Run(name, func(t *testing.T) {
			s, dir := newStore(t)
			claim(t, s, planOf("good", "d2"))
			write(t, tc.content, dir, "claims", "bad.json")
			write(t, "", dir, "devices", "d1", "bad")
			if _, err := s.Get("bad"); err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), "claims/bad.json") {
				t.Errorf("error is %v, want the path and %q", err, tc.want)
			}
			plans, err := s.List()
			test.True(t, err != nil && len(plans) == 1 && plans[0].UID == "good",
				test.Sprintf("list is %v, %v, want the good claim and an error", plans, err))
			err = s.Claim(context.Background(), planOf("u3", "d1"))
			test.ErrorContains(t, err, "device d1 may be in use",
				test.Sprint("a device of a claim with a bad record was given away"))
			claim(t, s, planOf("u4", "d3")) // other devices are free
			claim(t, s, planOf("bad", "d1"))
			wantPlans(t, s, "bad", "good", "u4") // preparing it again mends it
		})
	}
}

// A power loss may leave empty or cut records. They are void if they are older
// than this boot, and kept if not.
func TestVoidBadRecords(t *testing.T) {
	s, dir := newStore(t)
	for _, name := range []string{"old", "young"} {
		write(t, "", dir, "claims", name+".json")
	}
	// A record of this boot that only a newer driver understands is no rubbish, even if its
	// time says so: the clock was set since.
	write(t, `{"version": 99, "bootID": "boot-2", "claim": {"uid": "newer"}}`, dir, "claims", "newer.json")
	before := thisBoot.Time.Add(-time.Second)
	for _, name := range []string{"old", "newer"} {
		must.NoError(t, os.Chtimes(filepath.Join(dir, "claims", name+".json"), before, before))
	}
	voided, err := s.Void()
	test.True(t, err == nil && slices.Equal(voided, []types.UID{"old"}),
		test.Sprintf("voided %v, %v, want the old one", voided, err))
	for _, uid := range []types.UID{"young", "newer"} {
		_, err := s.Get(uid)
		test.Error(t, err, test.Sprintf("the %s record is gone", uid))
	}
}

// Sweep removes temporary files of killed writers, but not those of a writer at work.
func TestSweepTemporaryFiles(t *testing.T) {
	s, dir := newStore(t)
	stale, fresh := filepath.Join(dir, "claims", ".rdma.dev-1.tmp"), filepath.Join(dir, "claims", ".rdma.dev-2.tmp")
	write(t, "{", stale)
	write(t, "{", fresh)
	old := time.Now().Add(-time.Hour)
	must.NoError(t, os.Chtimes(stale, old, old))
	must.NoError(t, s.Sweep(nil))
	wantPlans(t, s)
	for path, want := range map[string]error{stale: fs.ErrNotExist, fresh: nil} {
		_, err := os.Stat(path)
		test.Eq(t, want == nil, err == nil, test.Sprintf("%s: %v, want %v", path, err, want))
	}
}

// A UID names files, so it must be no path.
func TestUnusableUID(t *testing.T) {
	s, dir := newStore(t)
	for _, uid := range []types.UID{"", "../evil", "a/b", ".", "..", "/etc/passwd"} {
		test.Error(t, s.Claim(context.Background(), planOf(uid, "d1")),
			test.Sprintf("claim with UID %q was taken", uid))
	}
	claim(t, s, planOf("u1", "d1")) // none of them is left in the way
	_, err := os.Stat(filepath.Join(dir, "evil.json"))
	test.Error(t, err, test.Sprint("a UID led out of the store"))
}

// What is in the way is named.
func TestClaimErrors(t *testing.T) {
	for _, tc := range []struct {
		name, obstacle string
		want           []string
	}{
		{"device is a file", "devices/d1", []string{"claim team-a/claim-u1: lock device d1: open", "not a directory"}},
		{"claims is a file", "claims", []string{"write record of claim u1", "not a directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dir := newStore(t)
			path := filepath.Join(dir, tc.obstacle)
			must.NoError(t, os.RemoveAll(path))
			write(t, "", path)
			err := s.Claim(context.Background(), planOf("u1", "d1"))
			for _, part := range tc.want {
				test.ErrorContains(t, err, part)
			}
		})
	}
	_, err := claimstore.Open("/dev/null/x", thisBoot)
	test.ErrorContains(t, err, "/dev/null", test.Sprint("open below a file"))
}

// TestListSeesOtherProcesses: what another process replaces, adds or removes is seen at
// once.
func TestListSeesOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	ours, another := open(t, dir, thisBoot), open(t, dir, thisBoot)
	claim(t, ours, planOf("a", "dev-0"))
	claim(t, another, planOf("b", "dev-1"))
	wantPlans(t, ours, "a", "b")
	claim(t, another, planOf("c", "dev-2"))
	must.NoError(t, another.Remove("b"))
	wantPlans(t, ours, "a", "c")
	replaced := planOf("c", "dev-2")
	replaced.Name = "replaced"
	claim(t, another, replaced)
	plans, err := ours.List()
	test.True(t, err == nil && len(plans) == 2 && plans[1].Name == "replaced",
		test.Sprintf("after a record was replaced there are %v, error %v", plans, err))
}
