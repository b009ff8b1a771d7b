package claimstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The record keeps its form: a driver of another version reads it.
func TestRecordFormat(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, sharesOf("u1", "d1"))
	got, err := os.ReadFile(filepath.Join(dir, "claims", "u1.json"))
	must.NoError(t, err)
	want := `{"version":1,"bootID":"boot-2","claim":{"uid":"u1","namespace":"team-a","name":"claim-u1","devices":[` +
		`{"request":"r0","pool":"node1","device":"d1","shareID":"u1","settings":{"memlock":"unlimited","nodes":["verbs","cm"]}}]}}`
	test.Eq(t, want, string(got), test.Sprintf("record is\n%s", got))
	later := strings.Replace(want, `"version":1`, `"version":1,"addedLater":true`, 1)
	write(t, later, dir, "claims", "u1.json")
	wantPlans(t, s, "u1")
}

// Whatever a plan says is the same when it is read again.
func TestRecordReadAgain(t *testing.T) {
	limited, plain, sited := planOf("u1", "d1"), planOf("u1", "d1"), planOf("u1", "d1")
	monitoring := planOf("u1", "d1", "d2")
	plain.Site = &plan.Site{Memlock: "1Gi"}
	limited.Devices[0].Limits.Objects = 1
	sited.Site = &plan.Site{Memlock: "1Gi", Mounts: []cdi.Mount{{HostPath: "/a", ContainerPath: "/b"}}}
	second := &monitoring.Devices[1]
	second.AdminAccess = true
	second.Settings = plan.Settings{Memlock: "4Gi", Nodes: []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassMAD}, Env: []string{"nccl"}}
	for name, want := range map[string]*plan.Plan{
		"exclusive": planOf("u1", "d1"), "shared": sharesOf("u1", "shared-d1"), "group": groupOf("u1", "d1", "d2"),
		"limits": limited, "site": plain, "mounts of the site": sited, "monitoring": monitoring,
	} {
		s, dir := newStore(t)
		claim(t, s, want)
		got, err := open(t, dir, thisBoot).Get("u1")
		must.NoError(t, err)
		test.Eq(t, want, got, test.Sprintf("%s: plan read again", name))
	}
}

// A record of a newer format is not guessed at: its HCAs stay taken.
func TestRecordOfNewerFormat(t *testing.T) {
	s, dir := newStore(t)
	write(t, `{"version":2,"bootID":"boot-2","claim":{"uid":"u1"}}`, dir, "claims", "u1.json")
	write(t, "", dir, "devices", "d1", "u1")
	if _, err := s.Get("u1"); err == nil || !strings.Contains(err.Error(), "written by a newer driver") {
		t.Errorf("it is read with error %v", err)
	}
	err := s.Claim(context.Background(), planOf("u2", "d1"))
	test.ErrorContains(t, err, "may be in use", test.Sprint("its device is claimed again"))
}
