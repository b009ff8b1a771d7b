package resources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var everything = resources.Options{Counters: true, Consumable: true}

// offers publishes all usable HCAs of a host by one form.
func offers(snap *rdma.Snapshot, form resources.Form, capacity resources.Capacity) []resources.Offer {
	var out []resources.Offer
	for _, h := range snap.Usable() {
		out = append(out, resources.Offer{HCA: h, Form: form, Capacity: capacity})
	}
	return out
}

func validate(t *testing.T, published []resourceslice.Slice) {
	t.Helper()
	cluster := controlplane.Cluster{Node: node, Features: controlplane.V136()}
	cluster.Publish(rdma.Domain, published)
	for _, s := range cluster.Slices() {
		test.NoError(t, controlplane.Validate(s))
	}
}

// TestCapacities: the API server takes the request policies of the smallest and the
// largest capacities, and a claim that asks for nothing gets its part.
func TestCapacities(t *testing.T) {
	snap := rdmatest.Snapshot(t, "hgx-h100")
	for _, tc := range []struct {
		capacity         resources.Capacity
		handles, objects string // of a claim that asks for nothing
	}{
		{resources.Capacity{Shares: 1, DefaultShares: 1}, "0", "0"},
		{resources.Capacity{Shares: 1, DefaultShares: 1, Handles: 1, Objects: 1, Bandwidth: resource.NewQuantity(resources.BandwidthStep, resource.DecimalSI)}, "1", "1"},
		{resources.Capacity{Shares: 2, DefaultShares: 2, Handles: 2, Objects: 3, Bandwidth: new(resource.MustParse("1500001"))}, "2", "2"},
		{resources.Capacity{Shares: 63, DefaultShares: 1, Handles: 4096, Objects: 1_000_000, Bandwidth: new(resource.MustParse("400G"))}, "65", "15873"},
		{resources.Capacity{Shares: 1_000_000, DefaultShares: 1_000_000, Handles: 1<<31 - 1, Objects: 1_000_000}, "2147M", "1M"},
	} {
		published := resources.Slices(offers(snap, resources.FormShared, tc.capacity), nil, snap.NetnsMode, everything)
		validate(t, published)
		cluster := controlplane.Cluster{Node: node, Features: controlplane.V136(), Classes: controlplane.ChartClasses(t)}
		cluster.Publish(rdma.Domain, published)
		results := cluster.Allocate(t, "claim", controlplane.Claim(controlplane.Want("nic", "shared.hca.rdma.dev")))
		if len(results) != 1 {
			t.Errorf("%+v: a claim gets %v", tc.capacity, results)
			continue
		}
		consumed := results[0].ConsumedCapacity
		shares, handles, objects, bandwidth := consumed["shares"], consumed["handles"], consumed["objects"], consumed["bandwidth"]
		test.True(t, shares.Value() == tc.capacity.DefaultShares && handles.String() == tc.handles &&
			objects.String() == tc.objects && bandwidth.IsZero(),
			test.Sprintf("%+v: a claim gets %s shares, %s handles, %s objects, %s of bandwidth", tc.capacity,
				&shares, &handles, &objects, &bandwidth))
	}
}

// TestGroupPlace: a group has the places on which its members agree: all for the HCAs of a card, fewer for the card and
// another one, none where a member is in no place.
func TestGroupPlace(t *testing.T) {
	snap := rdmatest.Snapshot(t, "hgx-b300-planes")
	hcas := snap.Usable()
	card := "sysImageGUID=a088:c203:009a:0000 pcieSwitch=0000:11:00.0 " +
		"resource.kubernetes.io/pcieRoot=pci0000:10 resource.kubernetes.io/numaNode=0"
	for _, tc := range []struct {
		members []*rdma.HCA
		want    string
	}{
		{hcas[:1], card},
		{hcas[:2], card},
		{hcas[:3], "resource.kubernetes.io/numaNode=0"},
		{hcas, ""},
		{[]*rdma.HCA{hcas[0], {Name: "soft", Function: rdma.Virtual}}, ""},
		{nil, ""},
	} {
		published := resources.Slices(nil, []resources.Group{{Name: "g", Members: tc.members, Shares: 1}}, snap.NetnsMode, everything)
		validate(t, published)
		device := published[0].Devices[0]
		var got []string
		for _, name := range []resourceapi.QualifiedName{
			"sysImageGUID", "pcieSwitch", "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode",
		} {
			switch a := device.Attributes[name]; {
			case a.StringValue != nil:
				got = append(got, fmt.Sprintf("%s=%s", name, *a.StringValue))
			case a.IntValue != nil:
				got = append(got, fmt.Sprintf("%s=%d", name, *a.IntValue))
			}
		}
		test.Eq(t, tc.want, strings.Join(got, " "), test.Sprintf("%d members", len(tc.members)))
		test.Eq(t, 3+len(got), len(device.Attributes),
			test.Sprintf("%d members: more attributes: %v", len(tc.members), device.Attributes))
	}
}

// TestCounterSets: on a host with a lock for each of 1,024 functions, all sets and
// what devices consume of them are valid, and each function has one lock.
func TestCounterSets(t *testing.T) {
	snap := large(t, 1024)
	published := resources.Slices(offers(snap, resources.FormBoth, resources.Capacity{Shares: 63, DefaultShares: 1}), nil, snap.NetnsMode, everything)
	validate(t, published)
	locks := map[string]bool{}
	for i, s := range published {
		if len(s.SharedCounters) > 0 && i > 0 && len(published[i-1].Devices) > 0 {
			t.Errorf("slice %d has counters, and the one before has devices", i)
		}
		for _, set := range s.SharedCounters {
			for name := range set.Counters {
				test.True(t, !locks[name] && snap.Lookup(name) != nil,
					test.Sprintf("counter %s stands twice, or for no HCA", name))
				locks[name] = true
			}
		}
	}
	test.Eq(t, 1024, len(locks), test.Sprint("locks"))
}

// A card whose PF has several HCAs keeps their locks in one set, so that its VFs need
// no third.
func TestHeadsStayTogether(t *testing.T) {
	var hcas []rdma.HCA
	add := func(name, address, pf string) {
		hcas = append(hcas, rdma.HCA{
			Identity: rdma.Identity{PCI: address}, Name: name, IBDev: name, PF: pf, Function: rdma.PF,
			PCI: &rdma.PCIFunction{Address: address}, Uverbs: &rdma.Node{},
		})
	}
	for i := range 20 {
		address := fmt.Sprintf("0000:%02x:00.0", i)
		for port := range 3 {
			add(fmt.Sprintf("hca-%02d-%d", i, port), address, "")
		}
		add(fmt.Sprintf("hca-%02d-vf", i), fmt.Sprintf("0000:%02x:00.1", i), address)
	}
	snap := &rdma.Snapshot{HCAs: hcas}
	published := resources.Slices(offers(snap, resources.FormBoth, resources.Capacity{Shares: 1, DefaultShares: 1}), nil, rdma.NetnsShared, everything)
	validate(t, published)
	for _, s := range published {
		for _, d := range s.Devices {
			test.LessEq(t, 2, len(d.ConsumesCounters), test.Sprintf("device %s consumes from", d.Name))
		}
	}
}

// Two HCAs of one PF are no parts of each other: each can be had alone.
func TestHeadsDoNotExclude(t *testing.T) {
	snap := rdmatest.Snapshot(t, "smi-multiplane")
	published := resources.Slices(offers(snap, resources.FormExclusive, resources.Capacity{}), nil, snap.NetnsMode, everything)
	cluster := controlplane.Cluster{Node: node, Features: controlplane.V136(), Classes: controlplane.ChartClasses(t)}
	cluster.Publish(rdma.Domain, published)
	n := int64(len(snap.Usable()))
	claim := controlplane.Claim(controlplane.Request{Name: "nic", Class: "hca.rdma.dev", Count: n})
	got := cluster.Allocate(t, "claim", claim)
	test.Eq(t, n, int64(len(got)), test.Sprintf("a claim for all %d HCAs gets %d", n, len(got)))
}

// What an HCA has by itself no site can replace, and the list of it is complete.
func TestOwnAttributesWin(t *testing.T) {
	site := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"tier": {StringValue: new("gold")}}
	for _, name := range resources.OwnAttributes {
		site[name] = resourceapi.DeviceAttribute{StringValue: new("forged")}
	}
	for _, machine := range fixture.Names() {
		snap := rdmatest.Snapshot(t, machine)
		for _, h := range snap.Usable() {
			own := resources.Attributes(h, snap.NetnsMode)
			for name := range own {
				test.True(t, slices.Contains(resources.OwnAttributes, name),
					test.Sprintf("%s: attribute %s is not in the list of the HCAs' own", machine, name))
			}
			published := resources.Slices([]resources.Offer{{HCA: h, Form: resources.FormExclusive, Attributes: site}}, nil, rdma.NetnsShared, everything)
			got := published[0].Devices[0].Attributes
			test.True(t, len(got) == len(own)+1 && *got["tier"].StringValue == "gold",
				test.Sprintf("%s: %s has %d attributes, want its own %d and one of the site", machine, h.Name,
					len(got), len(own)))
		}
	}
}
