package resources_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestGolden compares all slices of every fixture machine.
func TestGolden(t *testing.T) {
	for _, machine := range fixture.Names() {
		t.Run(machine, func(t *testing.T) {
			golden.Bytes(t, machine+".txt", []byte(describe(exclusive(rdmatest.Snapshot(t, machine)))))
		})
	}
}

// describe writes slices for people to compare: a line for each attribute.
func describe(in []resourceslice.Slice) string {
	var out strings.Builder
	for i, s := range in {
		fmt.Fprintf(&out, "slice %d: %d devices\n", i, len(s.Devices))
		for _, d := range s.Devices {
			fmt.Fprintf(&out, "  %s\n", d.Name)
			for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
				kind, value := typeAndValue(d.Attributes[name])
				fmt.Fprintf(&out, "    %s %s = %s\n", name, kind, value)
			}
		}
	}
	return out.String()
}

// typeAndValue tells the type of an attribute and its value as CEL writes them.
func typeAndValue(a resourceapi.DeviceAttribute) (kind, value string) {
	switch {
	case a.StringValue != nil:
		return "string", strconv.Quote(*a.StringValue)
	case a.IntValue != nil:
		return "int", strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return "bool", strconv.FormatBool(*a.BoolValue)
	}
	return "unknown", ""
}

// The same host gives the same slices, so that nothing is published for nothing.
func TestSlicesAreStable(t *testing.T) {
	for _, machine := range fixture.Names() {
		first, second := exclusive(rdmatest.Snapshot(t, machine)), exclusive(rdmatest.Snapshot(t, machine))
		test.Eq(t, first, second, test.Sprintf("%s: slices differ from one time to the next", machine))
	}
}

// A host that has nothing to offer publishes no slice.
func TestNothingToOffer(t *testing.T) {
	for _, machine := range []string{"none", "empty-classes"} {
		s := exclusive(rdmatest.Snapshot(t, machine))
		test.True(t, s != nil && len(s) == 0, test.Sprintf("%s: slices are %v, want none, and not nil", machine, s))
	}
}

// What no container can be given is not published, and hides nobody.
func TestUnusableIsLeftOut(t *testing.T) {
	names := deviceNames(exclusive(rdmatest.Snapshot(t, "misbehaving")))
	test.True(t, slices.Contains(names, "pci-0000-05-00-0") && !slices.Contains(names, "pci-0000-04-00-0"),
		test.Sprintf("devices are %v: want 05:00.0, and not 04:00.0, which has no uverbs node", names))
	for _, machine := range []string{"smi-multiplane", "switchdev"} {
		for _, name := range deviceNames(exclusive(rdmatest.Snapshot(t, machine))) {
			test.True(t, !strings.Contains(name, "smi") && !strings.Contains(name, "-at-"),
				test.Sprintf("%s: %s is published, an SMI sub-device or representor", machine, name))
		}
	}
}

func deviceNames(in []resourceslice.Slice) []string {
	var names []string
	for _, s := range in {
		for _, d := range s.Devices {
			names = append(names, d.Name)
		}
	}
	return names
}

// TestSlicesOfManyFunctions: every function once, at most 64 a slice, and no
// slice with parts of two cards that have VFs.
func TestSlicesOfManyFunctions(t *testing.T) {
	for _, functions := range []int{8, 64, 128, 1016} {
		snap := large(t, functions)
		got := exclusive(snap)
		names := deviceNames(got)
		test.Eq(t, functions, len(names), test.Sprint("functions"))
		slices.Sort(names)
		test.Eq(t, functions, len(slices.Compact(names)), test.Sprint("functions: a device stands twice"))
		for i, s := range got {
			test.LessEq(t, 64, len(s.Devices),
				test.Sprintf("%d functions: slice %d has %d devices", functions, i, len(s.Devices)))
			cards := cardsOf(snap, s)
			test.True(t, functions <= 8 || len(cards) == 1,
				test.Sprintf("%d functions: slice %d has parts of %d cards: %v", functions, i, len(cards), cards))
		}
	}
}

// cardsOf lists the cards with a device in a slice.
func cardsOf(snap *rdma.Snapshot, s resourceslice.Slice) []string {
	var cards []string
	for _, d := range s.Devices {
		if family := snap.Lookup(d.Name).Family(); !slices.Contains(cards, family) {
			cards = append(cards, family)
		}
	}
	return cards
}

// A link that goes down changes one slice, so one object is written.
func TestLinkChangeTouchesOneSlice(t *testing.T) {
	snap := large(t, 1016)
	before := exclusive(snap)
	vf := &snap.HCAs[700]
	vf.Ports[0].State, vf.Ports[0].PhysState = rdma.PortDown, "Polling"
	after := exclusive(snap)
	must.Eq(t, len(after), len(before), must.Sprint("slices became"))
	changed := 0
	for i := range before {
		if !cmp.Equal(before[i], after[i]) {
			changed++
		}
	}
	test.Eq(t, 1, changed, test.Sprintf("%d slices changed, want the one of %s", changed, vf.Name))
	test.SliceEqOp(t, deviceNames(after), deviceNames(before),
		test.Sprint("a device left the slices because its link went down"))
}

// A card that gets VFs leaves the slices of the other cards as they are, and its
// PF keeps its name.
func TestNewVFsLeaveOtherCardsAlone(t *testing.T) {
	full := large(t, 1016)
	card := full.HCAs[0].Family()
	bare := *full
	bare.HCAs = slices.DeleteFunc(slices.Clone(full.HCAs), func(h rdma.HCA) bool { return h.Function == rdma.VF && h.PF == card })
	before, after := othersThan(full, card, exclusive(&bare)), othersThan(full, card, exclusive(full))
	test.Eq(t, before, after, test.Sprint("slices of other cards changed"))
	test.True(t, slices.Contains(deviceNames(exclusive(&bare)), full.HCAs[0].Name),
		test.Sprintf("PF %s is not published without VFs", full.HCAs[0].Name))
}

// othersThan returns the slices without a device of the card.
func othersThan(snap *rdma.Snapshot, card string, in []resourceslice.Slice) []resourceslice.Slice {
	return slices.DeleteFunc(slices.Clone(in), func(s resourceslice.Slice) bool { return slices.Contains(cardsOf(snap, s), card) })
}

func BenchmarkSlices(b *testing.B) {
	for _, functions := range []int{8, 64, 1016} {
		snap := large(b, functions)
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			for b.Loop() {
				exclusive(snap)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*functions), "ns/device")
		})
	}
}
