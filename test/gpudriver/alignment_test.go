package main

import (
	"fmt"
	stdslices "slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// pcieRoot is the standard attribute that GPU drivers publish.
const pcieRoot = deviceattribute.StandardDeviceAttributePCIeRoot

// TestEveryClaimIsAligned gives out the claims of the examples until nothing is left.
// All eight GPUs of each host can have an HCA of their own root and switch, so every
// one has.
func TestEveryClaimIsAligned(t *testing.T) {
	for _, machine := range []string{"hgx-h100", "dgx-h100-ib", "aws-p5"} {
		for _, tc := range []struct {
			example       string
			by            resourceapi.QualifiedName
			claims, pairs int
		}{
			{"aligned-root", pcieRoot, 8, 8},
			{"aligned-switch", pcieSwitch, 8, 8},
			{"aligned-fallback", pcieRoot, 8, 8},
			{"aligned-pairs", pcieRoot, 2, 8},
		} {
			t.Run(machine+"/"+tc.example, func(t *testing.T) {
				n := newNode(t, machine)
				claims, aligned, pairs := n.exhaust(exampleClaim(t, tc.example), tc.by)
				if claims != tc.claims || aligned != tc.pairs || pairs != tc.pairs {
					t.Errorf("%d claims with %d pairs, %d of them aligned; want %d claims, and all of %d pairs", claims, pairs, aligned, tc.claims, tc.pairs)
				}
			})
		}
	}
}

// TestBlackwellBoards: on boards where the GPU is not below the nearest switch of the card, or has no root in common
// with any PF, every GPU still gets an HCA: by the root of the DMA function with Data Direct, by the root of the
// card's own switch, and by NUMA node where there is nothing else. Managers of NVSwitches are not given out.
func TestBlackwellBoards(t *testing.T) {
	for _, tc := range []struct {
		machine, example string
		claims, aligned  int
	}{
		{"gb300-cx8", "aligned-root", 4, 4},
		{"gb300-cx8", "aligned-pairs", 1, 4},
		{"hgx-b300", "aligned-root", 8, 8},
		{"hgx-b300-planes", "aligned-root", 8, 8},
		{"hgx-b300-planes", "aligned-pairs", 2, 8},
		{"amd-pollara", "aligned-root", 8, 8},
		{"amd-pollara", "aligned-pairs", 2, 8},
		{"amd-pollara", "aligned-switch", 0, 0},
		{"hgx-b200", "aligned-root", 8, 8},
		{"hgx-b200", "aligned-switch", 8, 8},
		{"gb200-cx7", "aligned-root", 0, 0},
		{"gb200-cx7", "aligned-fallback", 4, 0},
	} {
		n := newNode(t, tc.machine)
		claims, aligned, pairs := n.exhaust(exampleClaim(t, tc.example), pcieRoot)
		if claims != tc.claims || aligned != tc.aligned || tc.aligned > 0 && pairs != tc.aligned {
			t.Errorf("%s, %s: %d claims with %d pairs, %d of them aligned; want %d claims and %d aligned pairs",
				tc.machine, tc.example, claims, pairs, aligned, tc.claims, tc.aligned)
		}
	}
}

// TestWithoutDataDirect: by the place of the PFs, no GPU of the board would get an HCA of its own root.
func TestWithoutDataDirect(t *testing.T) {
	n := newNode(t, "gb300-cx8")
	n.hcas = nil
	for _, h := range rdmatest.Snapshot(t, "gb300-cx8").Usable() {
		h.DataDirect = nil
		n.addHCA(h.Name, h)
	}
	if claims, _, _ := n.exhaust(exampleClaim(t, "aligned-root"), pcieRoot); claims != 0 {
		t.Errorf("%d claims are aligned by the PF: the machine proves nothing", claims)
	}
}

// TestFallback: where the HCA of one GPU is taken, that GPU still gets one, of its
// NUMA node, and the seven others get theirs.
func TestFallback(t *testing.T) {
	for _, machine := range []string{"hgx-h100", "dgx-h100-ib", "aws-p5"} {
		t.Run(machine, func(t *testing.T) {
			n := newNode(t, machine)
			n.take("GPU3", pcieRoot)
			claim := exampleClaim(t, "aligned-fallback")
			if claims, aligned, pairs := n.exhaust(claim, pcieRoot); claims != 8 || aligned != 7 || pairs != 8 {
				t.Errorf("%d claims with %d pairs, %d of them aligned; want 8, 8 and 7", claims, pairs, aligned)
			}
			n.take("GPU3", pcieRoot)
			if claims, _, _ := n.exhaust(exampleClaim(t, "aligned-root"), pcieRoot); claims != 7 {
				t.Errorf("%d claims without an alternative, want 7", claims)
			}
		})
	}
}

// TestOrderOfAlternatives: with the GPU first, a GPU whose HCA is taken takes that of
// another GPU. docs/alignment.md has these numbers.
func TestOrderOfAlternatives(t *testing.T) {
	for gpuFirst, want := range map[bool]int{false: 7, true: 4} {
		n := newNode(t, "hgx-h100")
		n.take("GPU0", pcieRoot)
		claim := exampleClaim(t, "aligned-fallback")
		if gpuFirst {
			stdslices.Reverse(claim.Requests)
		}
		if claims, aligned, _ := n.exhaust(claim, pcieRoot); claims != 8 || aligned != want {
			t.Errorf("GPU first %t: %d claims, %d of them aligned; want 8 and %d", gpuFirst, claims, aligned, want)
		}
	}
}

// TestDerivedAttributes: the claim of docs/alignment.md computes the switch of the GPUs
// in its table, two on this host, where the GPU driver does not publish it.
func TestDerivedAttributes(t *testing.T) {
	n := newNode(t, "hgx-h100")
	n.Features.DerivedAttributes = true
	for _, d := range n.gpus {
		delete(d.Attributes, pcieSwitch)
	}
	if claims, aligned, _ := n.exhaust(documentedClaim(t, "derivedAttributes:"), pcieRoot); claims != 2 || aligned != 2 {
		t.Errorf("%d claims, %d of them aligned; want 2 and 2", claims, aligned)
	}
}

// TestCoarseRoot: on a host with four switches below one root, a claim by root gets
// pairs that lie below different switches, and a claim by switch does not.
func TestCoarseRoot(t *testing.T) {
	const root = "pci0000:00"
	n := emptyNode(t)
	for i := range 4 { // the HCAs are published in the opposite order
		n.addGPU(&topology.Device{Name: fmt.Sprint("GPU", i), Address: fmt.Sprintf("0000:3%d:00.0", i), Root: root, Bridges: below(i)})
		address := fmt.Sprintf("0000:4%d:00.0", 3-i)
		n.addHCA(deviceName(address), &rdma.HCA{Function: rdma.PF, PCI: &rdma.PCIFunction{Address: address, Root: root, Bridges: below(3 - i)}})
	}
	if claims, aligned, _ := n.exhaust(exampleClaim(t, "aligned-root"), pcieSwitch); claims != 4 || aligned == 4 {
		t.Errorf("by root: %d claims, %d of them below one switch: the host proves nothing", claims, aligned)
	}
	n.Claims = nil
	if claims, aligned, _ := n.exhaust(exampleClaim(t, "aligned-switch"), pcieSwitch); claims != 4 || aligned != 4 {
		t.Errorf("by switch: %d claims, %d of them below one switch; want 4 and 4", claims, aligned)
	}
}

// below is the way from the root port, over one common switch, to the switch of that
// number: the upstream and the downstream port of each.
func below(number int) []string {
	return []string{
		"0000:00:01.0", "0000:01:00.0", fmt.Sprintf("0000:02:0%d.0", number),
		fmt.Sprintf("0000:1%d:00.0", number), fmt.Sprintf("0000:2%d:00.0", number),
	}
}
