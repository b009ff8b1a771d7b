package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// sysImageGUID is the card of an HCA.
const sysImageGUID resourceapi.QualifiedName = "rdma.dev/sysImageGUID"

// together allocates a claim until it finds nothing. It returns how many claims have devices, and in how many of them
// all devices that have an attribute have it in common.
func (n *node) together(claim resourceapi.DeviceClaim, by resourceapi.QualifiedName) (claims, agreed int) {
	n.t.Helper()
	for {
		results := n.allocate(claim)
		if results == nil {
			return claims, agreed
		}
		claims++
		values := map[string]bool{}
		for _, r := range results {
			if v := value(n.device(r), by); v != "" {
				values[v] = true
			}
		}
		if len(values) == 1 {
			agreed++
		}
	}
}

// TestCards: on boards with two HCAs on each card, each claim of docs/alignment.md has a GPU and both HCAs of the card
// beside it, until all are given out.
func TestCards(t *testing.T) {
	for machine, want := range map[string]int{"hgx-b300-planes": 8, "gb300-cx8": 4} {
		for _, by := range []resourceapi.QualifiedName{sysImageGUID, pcieRoot} {
			n := newNode(t, machine)
			claims, agreed := n.together(documentedClaim(t, string(sysImageGUID)), by)
			if claims != want || agreed != want {
				t.Errorf("%s: %d claims, %d of them agree by %s; want %d", machine, claims, agreed, by, want)
			}
			for _, c := range n.Claims {
				test.SliceLen(t, 3, c.Status.Allocation.Devices.Results, test.Sprint(machine))
			}
		}
	}
}

// TestCardAlone: after a pod took one HCA of a card, claims for two HCAs without the constraint get them from two
// cards.
func TestCardAlone(t *testing.T) {
	for _, tc := range []struct {
		constraints    bool
		claims, agreed int
	}{{true, 7, 7}, {false, 7, 0}} {
		n := newNode(t, "hgx-b300-planes")
		one, two := exampleClaim(t, "card"), exampleClaim(t, "card")
		if !tc.constraints {
			two.Constraints = nil
		}
		one.Requests[0].Exactly.Count = 1
		must.NotNil(t, n.allocate(one), must.Sprint("the first HCA is not given out"))
		if claims, agreed := n.together(two, sysImageGUID); claims != tc.claims || agreed != tc.agreed {
			t.Errorf("constraint %t: %d claims, %d of one card; want %d and %d", tc.constraints, claims, agreed, tc.claims, tc.agreed)
		}
	}
}

// TestWholeNodeByGroups: eight GPUs and 32 EFAs are more than the 32 devices of a claim. With the policy of
// docs/alignment.md, which has a group for each GPU's EFAs, one claim has the whole node, each group beside its GPU.
func TestWholeNodeByGroups(t *testing.T) {
	const machine = "aws-p5"
	n := newNode(t, machine)
	claim := wholeNode("hca.rdma.dev", 4)
	if _, err := n.find(claim); err == nil || !strings.Contains(err.Error(), "exceeds the claim limit of 32") {
		t.Errorf("a claim for 40 devices: %v", err)
	}
	n.publish(machine, groupsOfRoots(t, n))
	must.Eq(t, 8, len(n.hcas), must.Sprint("devices are published"))
	results := n.allocate(wholeNode("card.hca.example.com", 1))
	if len(results) != 16 || n.allocate(wholeNode("card.hca.example.com", 1)) != nil {
		t.Fatalf("%d devices, or another claim has some: %v", len(results), results)
	}
	for i := 0; i < len(results); i += 2 {
		gpu, group := n.device(results[i]), n.device(results[i+1])
		if value(gpu, pcieRoot) == "" || value(gpu, pcieRoot) != value(group, pcieRoot) ||
			value(group, "rdma.dev/group") == "" {
			t.Errorf("%s has %s", gpu.Name, group.Name)
		}
	}
}

// wholeNode is a claim for eight GPUs, each with HCAs below its root.
func wholeNode(class string, count int64) resourceapi.DeviceClaim {
	var claim resourceapi.DeviceClaim
	for i := range 8 {
		gpu := controlplane.Want(fmt.Sprint("gpu", i), "gpu.example.com")
		hca := controlplane.Request{Name: fmt.Sprint("hca", i), Class: class, Count: count}
		claim.Requests = append(claim.Requests, controlplane.Claim(gpu, hca).Requests...)
		claim = controlplane.Match(claim, string(pcieRoot), gpu.Name, hca.Name)
	}
	return claim
}

// groupsOfRoots is the policy of docs/alignment.md with a group for the root of each GPU.
func groupsOfRoots(t *testing.T, n *node) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/alignment.md")
	must.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```yaml\nrules:\n- name: members\n")
	text, _, _ := strings.Cut(after, "```")
	must.True(t, found, must.Sprint("docs/alignment.md has no policy with groups"))
	var config struct {
		Rules  []any            `json:"rules"`
		Groups []map[string]any `json:"groups"`
	}
	must.NoError(t, yaml.Unmarshal([]byte("rules:\n- name: members\n"+text), &config))
	data, err := yaml.Marshal(config.Groups[:1])
	must.NoError(t, err)
	config.Groups = nil
	for i, gpu := range n.gpus {
		var group []map[string]any
		root := value(gpu, deviceattribute.StandardDeviceAttributePCIeRoot)
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("card-0", fmt.Sprint("card-", i), "pci0000:15", root).
			Replace(string(data))), &group); err != nil {
			t.Fatal(err)
		}
		config.Groups = append(config.Groups, group...)
	}
	if data, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAcceleratorIsHCA: a Gaudi is the HCA too, so a claim takes both by one PCI address. By the root, a claim may get
// the HCA of the neighbor.
func TestAcceleratorIsHCA(t *testing.T) {
	const machine = "gaudi2"
	sys, snap := rdmatest.Sysfs(t, machine)
	for by, want := range map[resourceapi.QualifiedName]int{deviceattribute.StandardDeviceAttributePCIBusID: 8, pcieRoot: 8} {
		n := newNode(t, machine)
		for _, d := range topology.Discover(sys, snap).Accelerators() {
			n.addGPU(d)
		}
		claim := exampleClaim(t, "aligned-root")
		claim.Constraints[0].MatchAttribute = new(resourceapi.FullyQualifiedName(by))
		if claims, agreed := n.together(claim, by); claims != want || agreed != want {
			t.Errorf("by %s: %d claims, %d of them aligned; want %d", by, claims, agreed, want)
		}
	}
}
