package claimstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The record keeps its form: a driver of another version reads it.
func TestRecordFormat(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, sharesOf("u1", "d1"))
	got, err := os.ReadFile(filepath.Join(dir, "claims", "u1.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"bootID":"boot-2","claim":{"uid":"u1","namespace":"team-a","name":"claim-u1","devices":[` +
		`{"request":"r0","pool":"node1","device":"d1","shareID":"u1","settings":{"memlock":"unlimited","nodes":["verbs","cm"]}}]}}`
	if string(got) != want {
		t.Errorf("record is\n%s\nwant\n%s", got, want)
	}
	later := strings.Replace(want, `"version":1`, `"version":1,"addedLater":true`, 1)
	write(t, later, dir, "claims", "u1.json")
	wantPlans(t, s, "u1")
}

// A record that the driver before shares existed has written means what it meant.
func TestRecordOfVersion1(t *testing.T) {
	old, err := os.ReadFile("testdata/record-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	s, dir := newStore(t)
	write(t, string(old), dir, "claims", "u1.json")
	for _, device := range []string{"pci-0000-3b-00-0", "pci-0000-3b-00-1"} {
		write(t, "", dir, "devices", device, "u1")
	}
	want := &plan.Plan{UID: "u1", Namespace: "team-a", Name: "claim-u1", Devices: []plan.Device{
		{Request: "r0", Pool: "node1", Device: "pci-0000-3b-00-0", Settings: plan.Settings{Memlock: "unlimited", Nodes: cdi.DefaultNodes}},
		{
			Request: "r1/fast", Pool: "node1", Device: "pci-0000-3b-00-1", AdminAccess: true,
			Settings: plan.Settings{Memlock: "4Gi", Nodes: []cdi.NodeClass{cdi.Verbs, cdi.MAD}, Env: []string{"nccl"}},
		},
	}}
	got, err := s.Get("u1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, device := range []string{"pci-0000-3b-00-0", "shared-pci-0000-3b-00-0"} {
		if err := s.Claim(context.Background(), planOf("u2", device)); err == nil || !strings.Contains(err.Error(), "in use by claim team-a/claim-u1") {
			t.Errorf("claim of %s beside the old record: %v", device, err)
		}
	}
	// What needs no more is written for the old driver as well.
	claim(t, s, got)
	again, err := os.ReadFile(filepath.Join(dir, "claims", "u1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(old), string(again)); diff != "" {
		t.Errorf("record written again (-old +new):\n%s", diff)
	}
}

// A record that the driver before shares existed would misread has a version that
// it refuses.
func TestRecordVersion(t *testing.T) {
	const version1, version2 = `{"version":1,`, `{"version":2,`
	limited, sited, plain := planOf("u1", "d1"), planOf("u1", "d1"), planOf("u1", "d1")
	limited.Devices[0].Limits.Objects = 1
	plain.Site = &plan.Site{Memlock: "1Gi"}
	sited.Site = &plan.Site{Memlock: "1Gi", Mounts: []cdi.Mount{{HostPath: "/a", ContainerPath: "/b"}}}
	for _, tc := range []struct {
		name string
		plan *plan.Plan
		want string
	}{
		{"exclusive", plain, version1},
		{"shared", sharesOf("u1", "shared-d1"), version2},
		{"group", groupOf("u1", "d1", "d2"), version2},
		{"limits", limited, version2},
		{"mounts of the site", sited, version2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dir := newStore(t)
			claim(t, s, tc.plan)
			data, err := os.ReadFile(filepath.Join(dir, "claims", "u1.json"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), tc.want) {
				t.Errorf("record is %s, want %s", data, tc.want)
			}
			got, err := s.Get("u1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.plan, got); diff != "" {
				t.Errorf("plan read again (-want +got):\n%s", diff)
			}
		})
	}
}
