package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The PCI functions of the machine roce-sriov.
const (
	pfAt      = "0000:3b:00.0"
	vfAt      = "0000:3b:00.2"
	vf2At     = "0000:3b:00.3"
	otherPFAt = "0000:3b:00.1"
)

// TestSharing plays scenarios on the machine roce-sriov: a PF with eight VFs, and a
// PF without.
func TestSharing(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		steps        []step
	}{
		{"an exclusive claim waits for all shares to end", cardPolicy, []step{
			gets("a", one(share, pfAt), "nic=shared-"+pf), gets("b", one(share, pfAt), "nic=shared-"+pf),
			waits("c", one(hca, pfAt)), end("a"), waits("c", one(hca, pfAt)), end("b"), gets("c", one(hca, pfAt), "nic="+pf),
		}},
		{"shares and VFs wait for an exclusive claim to end", cardPolicy, []step{
			gets("a", one(hca, pfAt), "nic="+pf), waits("b", one(share, pfAt)), waits("c", one(parts)),
			waits("d", one(hca, pfAt)),
			gets("other", one(hca), "nic="+otherPF), end("a"),
			gets("b", one(share, pfAt), "nic=shared-"+pf), gets("c", one(parts), "nic="+vf),
		}},
		{"an exclusive claim waits for the VFs to end", cardPolicy, []step{
			gets("a", one(parts), "nic="+vf), gets("b", one(parts), "nic="+vf2), waits("c", one(hca, pfAt)),
			gets("s", one(share, pfAt), "nic=shared-"+pf), end("a"), end("s"), waits("c", one(hca, pfAt)), end("b"),
			gets("c", one(hca, pfAt), "nic="+pf),
		}},
		{"a VF and its shares", bothPolicy, []step{
			gets("a", one(share, vfAt), "nic=shared-"+vf), waits("b", one(parts, vfAt)), waits("pf", one(hca, pfAt)),
			gets("c", one(parts, vf2At), "nic="+vf2), waits("d", one(share, vf2At)), end("a"),
			gets("b", one(parts, vfAt), "nic="+vf),
			waits("pf", one(hca, pfAt)), end("b"), end("c"), gets("pf", one(hca, pfAt), "nic="+pf),
			waits("d", one(share, vf2At)),
		}},
		{"without partitioning a PF and its VFs go together", "", []step{
			gets("a", one(hca, pfAt), "nic="+pf), gets("b", one(parts, vfAt), "nic="+vf), waits("c", one(hca, pfAt)),
			waits("d", one(share)),
		}},
		{"partitioning of exclusive HCAs", "partitioning: true", []step{
			gets("a", one(parts, vfAt), "nic="+vf), waits("b", one(hca, pfAt)), gets("c", one(hca), "nic="+otherPF),
		}},
		{"shares fill one HCA before the next", "rules: [{name: all, publish: shared, shares: 2}]", []step{
			gets("a", one(share), "nic=shared-"+otherPF), gets("b", one(share), "nic=shared-"+otherPF),
			gets("c", one(share), "nic=shared-"+pf), end("a"), gets("d", one(share), "nic=shared-"+otherPF),
		}},
		{"a claim may take several shares, or all",
			"rules: [{name: all, publish: shared, shares: 4, defaultShares: 2}]", []step{
				gets("a", one(share, pfAt), "nic=shared-"+pf), gets("b",
					some(share, map[string]string{"shares": "1"}, pfAt), "nic=shared-"+pf),
				waits("c", one(share, pfAt)), gets("c", some(share, map[string]string{"shares": "1"}, pfAt), "nic=shared-"+pf),
				end("a"), end("b"), end("c"), waits("d", some(share, map[string]string{"shares": "5"}, pfAt)),
				gets("d", some(share, map[string]string{"shares": "4"}, pfAt), "nic=shared-"+pf),
				waits("e", some(share, map[string]string{"shares": "1"}, pfAt)),
			}},
		{"bandwidth is asked for, or not given", sharedPolicy, []step{
			gets("a", some(share, map[string]string{"bandwidth": "60G"}, pfAt), "nic=shared-"+pf),
			waits("b", some(share, map[string]string{"bandwidth": "60G"}, pfAt)),
			gets("c", some(share, map[string]string{"bandwidth": "40G"}, pfAt), "nic=shared-"+pf),
			gets("d", one(share, pfAt), "nic=shared-"+pf),
			waits("e", some(share, map[string]string{"bandwidth": "1"}, pfAt)), end("a"),
			gets("e", some(share, map[string]string{"bandwidth": "1"}, pfAt), "nic=shared-"+pf),
		}},
		{"handles are accounted", sharedPolicy, []step{
			gets("a", some(share, map[string]string{"handles": "4000"}, pfAt), "nic=shared-"+pf),
			gets("b", one(share, pfAt), "nic=shared-"+pf),
			waits("c", one(share, pfAt)), gets("c", some(share, map[string]string{"handles": "31"}, pfAt), "nic=shared-"+pf),
			waits("d", some(share, map[string]string{"handles": "1"}, pfAt)),
		}},
		{"handles that are not in the policy are not accounted", "rules: [{name: all, publish: shared}]", []step{
			waits("a", some(share, map[string]string{"handles": "1"}, pfAt)), gets("b", one(share, pfAt), "nic=shared-"+pf),
		}},
		{"groups: shares, and members alone", guardedGroupPolicy, []step{
			gets("a", one(groupCards), "nic=group-cards"), gets("b", one(groupCards), "nic=group-cards"),
			gets("c", one(groupCards), "nic=group-cards"),
			waits("d", one(groupCards)), waits("pf", one(hca)), gets("s", one(share, pfAt), "nic=shared-"+pf),
			gets("vf", one(parts, vfAt), "nic="+vf),
			waits("p", one(groupParts)), end("vf"), gets("p", one(groupParts), "nic=group-parts"), waits("vf", one(parts, vfAt)),
			end("a"), end("b"), end("c"), gets("pf", one(hca), "nic="+otherPF), waits("d", one(groupCards)), end("pf"),
			gets("d", one(groupCards), "nic=group-cards"),
		}},
		{"a class of shared HCAs selects no group", guardedGroupPolicy, []step{
			gets("a", one(share), "nic=shared-"+otherPF), waits("b", many(share, 11)),
			gets("c", many(share, 10), tenShared()...),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, newCluster(t, "roce-sriov", tc.policy, controlplane.V136()), tc.steps...)
		})
	}
}

// tenShared are the shared devices of the machine roce-sriov, in order.
func tenShared() []string {
	out := []string{"nic=shared-" + otherPF, "nic=shared-" + pf}
	for _, function := range []string{"00-2", "00-3", "00-4", "00-5", "00-6", "00-7", "01-0", "01-1"} {
		out = append(out, "nic=shared-pci-0000-3b-"+function)
	}
	return out
}

// TestExhaustion: on every machine, an HCA has 63 shares; the 64th claim waits until
// another ends.
func TestExhaustion(t *testing.T) {
	for _, machine := range fixture.Names() {
		usable := snapshot(t, machine).Usable()
		if len(usable) == 0 || snapshot(t, machine).NetnsMode == rdma.NetnsExclusive {
			continue
		}
		c := newCluster(t, machine, sharedPolicy, controlplane.V136())
		h := usable[len(usable)-1]
		claim := controlplane.Claim(controlplane.Want("nic", share, `device.attributes["rdma.dev"].ibdev == "`+h.IBDev+`"`))
		want := []string{"nic=" + devicename.Shared(h.Name)}
		ids := map[string]bool{}
		for i := range 63 {
			name := fmt.Sprintf("claim-%d", i)
			must.SliceEqOp(t, want, take(t, c, name, claim), must.Sprintf("%s: claim %d gets", machine, i))
			ids[string(*c.Claims[name].Status.Allocation.Devices.Results[0].ShareID)] = true
		}
		test.Eq(t, 63, len(ids), test.Sprint(machine))
		run(t, c, waits("claim-63", claim), end("claim-7"), gets("claim-63", claim, want...), waits("claim-64", claim))
		consumed := c.Claims["claim-63"].Status.Allocation.Devices.Results[0].ConsumedCapacity
		handles, objects := consumed["handles"], consumed["objects"]
		test.True(t, handles.Value() == 4096/63 && objects.Value() == 1_000_000/63,
			test.Sprintf("%s: a share has %s handles and %s objects", machine, handles.String(), objects.String()))
	}
}

// TestCount: a request for several devices gets different ones, two requests may get
// one, and a constraint makes them get different cards.
func TestCount(t *testing.T) {
	for _, machine := range machines() {
		snap := snapshot(t, machine)
		usable := snap.Usable()
		if len(usable) == 0 || len(usable) > 31 || snap.NetnsMode == rdma.NetnsExclusive {
			continue // a claim has 32 results at most
		}
		c := newCluster(t, machine, sharedPolicy, controlplane.V136())
		seen := map[string]bool{}
		for _, r := range c.Allocate(t, "all", many(share, int64(len(usable)))) {
			seen[r.Device] = true
		}
		test.Eq(t, len(usable), len(seen), test.Sprintf("%s: a claim", machine))
		run(t, c, waits("more", many(share, int64(len(usable)+1))))

		two := controlplane.Claim(controlplane.Want("a", share), controlplane.Want("b", share))
		first := take(t, c, "two", two)
		a, b := strings.TrimPrefix(first[0], "a="), strings.TrimPrefix(first[1], "b=")
		test.Eq(t, b, a, test.Sprintf("%s: two requests get", machine))
		guids := map[rdma.GUID]bool{}
		for _, h := range usable {
			guids[h.NodeGUID] = true
		}
		delete(guids, 0)
		distinct := controlplane.Distinct(controlplane.Claim(
			controlplane.Want("a", share, hasGUID), controlplane.Want("b", share, hasGUID)), "rdma.dev/nodeGUID")
		got := take(t, c, "distinct", distinct)
		test.Eq(t, (len(guids) > 1), (got != nil),
			test.Sprintf("%s has %d node GUIDs, and a claim for two cards gets %v", machine, len(guids), got))
	}
}

const hasGUID = `has(device.attributes["rdma.dev"].nodeGUID)`

// TestConstraints: devices of one claim below one root, below one switch, on one rail.
func TestConstraints(t *testing.T) {
	const rails = `
rules:
- name: compute
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].protocol == "ib"'}}]
  publish: shared
  rails: 8
- name: rest
  publish: none
`
	two := controlplane.Claim(controlplane.Want("a", share), controlplane.Want("b", share))
	four := controlplane.Claim(controlplane.Request{Name: "nic", Class: hca, Count: 4})
	run(t, newCluster(t, "dgx-h100-ib", rails, controlplane.V136()),
		gets("one rail", controlplane.Match(two, "rdma.dev/rail"), "a=shared-pci-0000-18-00-0", "b=shared-pci-0000-18-00-0"),
		gets("rail 3", controlplane.Claim(controlplane.Want("nic", share,
			`device.attributes["rdma.dev"].?rail.orValue(-1) == 3`)), "nic=shared-pci-0000-5e-00-0"),
		gets("two rails", controlplane.Distinct(two, "rdma.dev/rail"), "a=shared-pci-0000-18-00-0",
			"b=shared-pci-0000-40-00-0"),
		waits("rail 8", controlplane.Claim(controlplane.Want("nic", share,
			`device.attributes["rdma.dev"].?rail.orValue(-1) == 8`))),
	)
	run(t, newCluster(t, "aws-p5", "", controlplane.V136()),
		gets("one root", controlplane.Match(four, "resource.kubernetes.io/pcieRoot"), "nic=pci-0000-4f-00-0",
			"nic=pci-0000-50-00-0", "nic=pci-0000-51-00-0", "nic=pci-0000-52-00-0"),
	)
	run(t, newCluster(t, "aws-p5", "", controlplane.V134()),
		gets("one switch", controlplane.Match(controlplane.Claim(controlplane.Request{Name: "nic", Class: hca, Count: 3}),
			"rdma.dev/pcieSwitch"), "nic=pci-0000-4f-00-0", "nic=pci-0000-50-00-0", "nic=pci-0000-51-00-0"),
		gets("another switch", controlplane.Match(controlplane.Claim(controlplane.Request{Name: "nic", Class: hca, Count: 2}),
			"rdma.dev/pcieSwitch"), "nic=pci-0000-60-00-0", "nic=pci-0000-61-00-0"),
	)
	run(t, newCluster(t, "hgx-h100", "", controlplane.V136()),
		waits("no two below one switch",
			controlplane.Match(controlplane.Claim(controlplane.Request{Name: "nic", Class: hca, Count: 2}),
				"rdma.dev/pcieSwitch")),
	)
}

// TestManyFunctions takes all 1,016 VFs of a host, and then none is left; the PFs wait
// until the VFs of their card end.
func TestManyFunctions(t *testing.T) {
	snap := snapshot(t, "large")
	c := newCluster(t, "large", cardPolicy, controlplane.V136())
	left := 0
	for i := range snap.HCAs {
		if snap.HCAs[i].Function == rdma.VF {
			left++
		}
	}
	must.Eq(t, 1016, left, must.Sprint("the machine"))
	for i := 0; left > 0; i++ {
		n := min(left, resourceapi.AllocationResultsMaxSize)
		must.Eq(t, n, len(take(t, c, fmt.Sprintf("claim-%d", i), many(parts, int64(n)))),
			must.Sprintf("claim %d gets", i))
		left -= n
	}
	first := snap.HCAs[0]
	run(t, c, waits("vf", one(parts)), waits("pf", one(hca)), gets("share", one(share),
		"nic="+devicename.Shared(first.Name)))
	for name, claim := range c.Claims {
		if slices.ContainsFunc(claim.Status.Allocation.Devices.Results,
			func(r resourceapi.DeviceRequestAllocationResult) bool {
				return snap.Lookup(devicename.Parse(r.Device).HCA).Family() == first.Family()
			}) {
			c.Release(name)
		}
	}
	run(t, c, gets("pf", one(hca), "nic="+first.Name), waits("pf2", one(hca)))
}

// TestDegraded plays on a cluster without counters and consumable capacity, as
// Kubernetes 1.34 and 1.35 are.
func TestDegraded(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		steps        []step
	}{
		{"a shared HCA is for one claim at a time", sharedPolicy, []step{
			gets("a", one(share, pfAt), "nic=shared-"+pf), waits("b", one(share, pfAt)), end("a"),
			gets("b", one(share, pfAt), "nic=shared-"+pf),
		}},
		{"both is shared only", bothPolicy, []step{waits("a", one(hca)), gets("b", one(share, pfAt), "nic=shared-"+pf),
			waits("c", one(share, pfAt))}},
		{"a card has its VFs and not its PF", "partitioning: true", []step{
			waits("a", one(hca, pfAt)), gets("b", one(parts, vfAt), "nic="+vf), gets("c", one(hca), "nic="+otherPF),
		}},
		{"a group is for one claim at a time", groupsOfShared, []step{gets("a", one(groupCards), "nic=group-cards"),
			waits("b", one(groupCards))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, newCluster(t, "roce-sriov", tc.policy, controlplane.V134()), tc.steps...)
		})
	}
}

const groupsOfShared = `
rules: [{name: all, publish: shared}]
groups: [{name: cards}]
`

// What the API server drops before the driver knows is safe for shares, which become
// exclusive, and not for cards: this is why the driver must not leave it at that.
func TestDroppedFields(t *testing.T) {
	c := emptyCluster(t, controlplane.V134())
	full := parse(t, cardPolicy).Apply(snapshot(t, "roce-sriov"), policy.State{})
	c.Publish(rdma.Domain, full.Slices())
	run(t, c,
		gets("a", one(share, pfAt), "nic=shared-"+pf), waits("b", one(share, pfAt)),
		gets("pf", one(hca, pfAt), "nic="+pf), gets("vf", one(parts, vfAt), "nic="+vf),
	)
}

// TestAdminAccess shows access for monitoring as it is: it takes nothing from anyone,
// but the scheduler wants free counters and capacity for it all the same
// (https://github.com/kubernetes/kubernetes/issues/140729).
func TestAdminAccess(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		steps        []step
	}{
		{"without counters it always works", "", []step{
			gets("a", one(hca, pfAt), "nic="+pf), gets("m", admin(hca, pfAt), "nic="+pf),
			gets("m2", admin(hca, pfAt), "nic="+pf),
			end("a"), gets("b", one(hca, pfAt), "nic="+pf),
		}},
		{"it takes nothing", cardPolicy, []step{
			gets("m", admin(hca, pfAt), "nic="+pf), gets("a", one(hca, pfAt), "nic="+pf), end("a"),
			gets("s", one(share, pfAt), "nic=shared-"+pf), gets("vf", one(parts), "nic="+vf),
		}},
		{"with counters it waits for the HCA's users: the bug", cardPolicy, []step{
			gets("a", one(hca, pfAt), "nic="+pf), waits("m", admin(hca, pfAt)), waits("m", admin(share, pfAt)), end("a"),
			gets("s", one(share, pfAt), "nic=shared-"+pf), waits("m", admin(hca, pfAt)),
			gets("m", admin(share, pfAt), "nic=shared-"+pf),
			gets("vf", one(parts), "nic="+vf), end("s"), waits("m2", admin(hca, pfAt)),
			gets("m2", admin(parts, vfAt), "nic="+vf),
		}},
		{"it waits for a share where none is left", "rules: [{name: all, publish: shared, shares: 1}]", []step{
			gets("a", one(share, pfAt), "nic=shared-"+pf), waits("m", admin(share, pfAt)), end("a"),
			gets("m", admin(share, pfAt), "nic=shared-"+pf), gets("a", one(share, pfAt), "nic=shared-"+pf),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, newCluster(t, "roce-sriov", tc.policy, controlplane.V136()), tc.steps...)
		})
	}
}

// TestPolicyChange: a form that claims hold stays as long as they do, and takes no new
// claim, on clusters with and without taints.
func TestPolicyChange(t *testing.T) {
	old := controlplane.V136()
	old.DeviceTaints = false
	for name, features := range map[string]controlplane.Features{"1.36": controlplane.V136(), "without taints": old,
		"1.34": controlplane.V134()} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "roce-sriov", sharedPolicy, features)
			run(t, c, gets("a", one(share, pfAt), "nic=shared-"+pf))
			publish(t, c, "roce-sriov", "", policy.State{Held: map[string]policy.Held{pf: {Shared: true}}})
			run(t, c, waits("b", one(share, pfAt)), waits("c", one(hca, pfAt)),
				gets("d", one(hca, otherPFAt), "nic="+otherPF), end("a"))
			publish(t, c, "roce-sriov", "", policy.State{})
			run(t, c, gets("c", one(hca, pfAt), "nic="+pf))
			publish(t, c, "roce-sriov", sharedPolicy,
				policy.State{Held: map[string]policy.Held{pf: {Exclusive: true}, otherPF: {Exclusive: true}}})
			run(t, c, waits("b", one(share, pfAt)), end("c"))
			if features.DeviceTaints { // else the next claim gets it before the driver knows
				run(t, c, waits("e", one(hca, pfAt)))
			}
			publish(t, c, "roce-sriov", sharedPolicy, policy.State{Held: map[string]policy.Held{otherPF: {Exclusive: true}}})
			run(t, c, gets("b", one(share, pfAt), "nic=shared-"+pf))
		})
	}
}

// TestCountersOnUsedNode: partitioning is switched on while claims hold a PF and one
// of its VFs. A counter below zero would stop all allocations from the pool.
func TestCountersOnUsedNode(t *testing.T) {
	c := newCluster(t, "roce-sriov", "", controlplane.V136())
	run(t, c, gets("a", one(hca, pfAt), "nic="+pf), gets("b", one(parts, vfAt), "nic="+vf))
	held := map[string]policy.Held{pf: {Exclusive: true}, vf: {Exclusive: true}}
	publish(t, c, "roce-sriov", cardPolicy, policy.State{})
	run(t, c, waits("c", one(hca, otherPFAt))) // what would be without State.Held
	publish(t, c, "roce-sriov", cardPolicy, policy.State{Held: held})
	run(t, c, gets("c", one(hca, otherPFAt), "nic="+otherPF), waits("d", one(parts, vf2At)),
		waits("s", one(share, pfAt)), end("a"))
	delete(held, pf)
	publish(t, c, "roce-sriov", cardPolicy, policy.State{Held: held})
	run(t, c, gets("d", one(parts, vf2At), "nic="+vf2), waits("a", one(hca, pfAt)))
}
