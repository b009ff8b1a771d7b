package policy_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Policies that tests use on many machines.
const (
	sharedPolicy = `
rules:
- name: all
  publish: shared
  handles: 4096
  objects: 1M
`
	bothPolicy = `
partitioning: true
rules:
- name: all
  publish: both
`
	// cardPolicy is the one that a site with SR-IOV wants: whole cards exclusively or
	// shared, VFs exclusively.
	cardPolicy = `
partitioning: true
rules:
- name: parts
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].function in ["vf", "sf"]'}}]
- name: cards
  publish: both
`
	groupPolicy = `
rules:
- name: all
  publish: shared
groups:
- name: all
`
	guardedGroupPolicy = bothPolicy + `
groups:
- name: cards
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}}]
  shares: 3
- name: parts
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].function in ["vf", "sf"]'}}]
`
)

// The PF of the machine roce-sriov that has VFs, two of its VFs, and the other PF.
const (
	pf      = "pci-0000-3b-00-0"
	vf      = "pci-0000-3b-00-2"
	vf2     = "pci-0000-3b-00-3"
	otherPF = "pci-0000-3b-00-1"
)

// TestApply compares decisions and slices.
func TestApply(t *testing.T) {
	policies := map[string]string{
		"shared": sharedPolicy, "both": bothPolicy, "cards": cardPolicy, "group": groupPolicy,
		"guarded group": guardedGroupPolicy, "rules": rulesPolicy, "failing": failingPolicy,
	}
	type input struct {
		Machine, Policy string
		State           policy.State
	}
	golden.Cases(t, "apply", func(t *testing.T, in input) string {
		if text, ok := policies[in.Policy]; ok {
			in.Policy = text
		}
		r := parse(t, in.Policy).Apply(snapshot(t, in.Machine), in.State)
		valid(t, r.Slices())
		return describe(r)
	})
}

// TestSoftware: a pod with NET_ADMIN can make a software HCA on an interface of its own network namespace, and chooses
// all names. Nobody is offered it by a rule or a group that does not ask for software HCAs.
func TestSoftware(t *testing.T) {
	snap := *snapshot(t, "soft")
	snap.HCAs = slices.Clone(snap.HCAs)
	for i, software := range []*rdma.Software{nil, {Index: 1, Netdev: "eth0"}, {Index: 2}, {Index: 3}} {
		snap.HCAs[i].Software = software
	}
	selected := func(expression string) string {
		return "[{name: a, publish: shared, selectors: [{cel: {expression: '" + expression + "'}}]}]"
	}
	function := selected(`device.attributes["rdma.dev"].function == "virtual"`)
	const host, all = "soft-rxe-eth0", "soft-rxe-dummy0 soft-rxe-eth0 soft-rxe-eth1 soft-rxe-veth0"
	const shared = "shared-soft-rxe-dummy0 shared-soft-rxe-eth0 shared-soft-rxe-eth1 shared-soft-rxe-veth0"
	members := strings.ReplaceAll(function, "publish: shared, ", "")
	for text, want := range map[string]string{
		"":                                    host,
		"rules: [{name: a, publish: shared}]": "shared-" + host,
		"rules: " + selected(`device.attributes["rdma.dev"].protocol == "roce"`):         "shared-" + host,
		"rules: " + selected(`device.attributes["rdma.dev"].netdev in ["eth0", "eth1"]`): "shared-" + host,
		"rules: " + selected(`device.attributes["rdma.dev"].ibdev == "rxe1"`):            host,
		"rules: " + selected(`device.attributes["rdma.dev"].function != "vf"`):           "shared-" + host,
		"rules: " + selected(`device.attributes["rdma.dev"].driver == "rxe"`):            shared,
		"rules: " + function:                                     shared,
		"rules: [{name: a, rails: 1}]":                           host,
		"rules: [{name: n, publish: none}]\ngroups: [{name: a}]": "group-a of " + host,
		"rules: [{name: n, publish: none}]\ngroups: " + members:  "group-a of " + all,
	} {
		r := parse(t, text).Apply(&snap, policy.State{})
		var got []string
		for _, s := range r.Slices() {
			for _, d := range s.Devices {
				got = append(got, d.Name)
			}
		}
		for _, g := range r.PublishedGroups() {
			got = append(got, "of")
			for _, h := range g.Members {
				got = append(got, h.Name)
			}
		}
		if d := r.Decisions[1]; strings.Contains(d.Reason, "no attribute rail") {
			t.Errorf("%s: %s: %s", text, d.HCA.Name, d.Reason)
		}
		test.Eq(t, want, strings.Join(got, " "), test.Sprintf("%s: published %v", text, got))
	}
}

const rulesPolicy = `
rules:
- name: management
  selectors:
  - cel: {expression: 'device.attributes["rdma.dev"].protocol == "roce"'}
  - cel: {expression: '"netdev" in device.attributes["rdma.dev"] && device.attributes["rdma.dev"].netdev.startsWith("enp41")'}
  publish: none
- name: storage
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].protocol == "roce"'}}]
  publish: shared
  shares: 4
  defaultShares: 2
  bandwidth: 100G
  handles: 401
  resourceName: nvidia.com/hostdev
  attributes: {tier: {string: gold}, example.com/site: {int: 3}}
- name: compute
  selectors: [{cel: {expression: 'device.driver == "rdma.dev" && device.attributes["rdma.dev"].rateGbps >= 400'}}]
  rails: 8
- name: one-too-many
  rails: 1
`

const failingPolicy = `
rules:
- name: fast
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].rateGbps >= 400'}}]
  publish: shared
groups:
- name: all
`

// valid checks what is published as the API server would, and the library before it.
func valid(t *testing.T, published []resourceslice.Slice) {
	t.Helper()
	cluster := controlplane.Cluster{Node: "node1", Features: controlplane.V136()}
	cluster.Publish(rdma.Domain, published)
	sets, devices := map[string]bool{}, map[string]bool{}
	for _, s := range cluster.Slices() {
		test.NoError(t, controlplane.Validate(s))
		for _, set := range s.Spec.SharedCounters {
			for name := range set.Counters {
				sets[set.Name+"/"+name] = true
			}
		}
		for _, d := range s.Spec.Devices {
			test.False(t, devices[d.Name], test.Sprintf("device %s is published twice", d.Name))
			devices[d.Name] = true
			for _, c := range d.ConsumesCounters {
				for name := range c.Counters {
					test.True(t, sets[c.CounterSet+"/"+name],
						test.Sprintf("device %s takes %s/%s, which no slice before it has", d.Name, c.CounterSet, name))
				}
			}
		}
	}
}

// TestEverywhere applies policies to all machines in all states: what comes out is
// valid, the same each time, and has a reason wherever it is not what was wanted.
func TestEverywhere(t *testing.T) {
	for _, text := range []string{"", sharedPolicy, bothPolicy, cardPolicy, groupPolicy, guardedGroupPolicy, rulesPolicy,
		"partitioning: true"} {
		c := parse(t, text)
		for _, machine := range machines() {
			snap := snapshot(t, machine)
			var last []resourceslice.Slice // many states are published alike
			for i, state := range states(snap) {
				if machine == "large" && (i%4 > 0 || text != guardedGroupPolicy) {
					continue // thousands of devices each
				}
				r := c.Apply(snap, state)
				first, second := r.Slices(), c.Apply(snap, state).Slices()
				test.True(t, reflect.DeepEqual(first, second),
					test.Sprintf("%s: slices differ from one time to the next:\n%s", machine, cmp.Diff(first, second)))
				if !reflect.DeepEqual(first, last) {
					valid(t, first)
				}
				last = first
				reasoned(t, machine, snap, r)
			}
			must.False(t, t.Failed(), must.Sprintf("%s with the policy\n%s", machine, text))
		}
	}
}

// states are the states that a node can be in, with and without claims.
func states(snap *rdma.Snapshot) []policy.State {
	held := policy.State{Held: map[string]policy.Held{}, HeldGroups: map[string][]string{"all": nil}}
	for i := range snap.HCAs {
		name := snap.HCAs[i].Name
		held.Held[name] = policy.Held{Exclusive: i%3 == 0, Shared: i%5 == 0}
		if i%7 == 0 {
			held.HeldGroups["all"] = append(held.HeldGroups["all"], name)
		}
	}
	var out []policy.State
	for _, state := range []policy.State{{}, held} {
		for i := range 4 {
			state.NoCounters, state.NoConsumable = i&1 > 0, i&2 > 0
			out = append(out, state)
		}
	}
	return out
}

func reasoned(t *testing.T, machine string, snap *rdma.Snapshot, r policy.Result) {
	t.Helper()
	test.Eq(t, len(snap.HCAs), len(r.Decisions), test.Sprint(machine))
	for _, d := range r.Decisions {
		if (d.Form != d.Wanted || d.Form == resources.FormNone) && d.Reason == "" {
			t.Errorf("%s: no reason why %s is %s and not %s", machine, d.HCA.Name, d.Form, d.Wanted)
		}
		if d.Offer.Form != d.Form || d.Offer.HCA != d.HCA {
			t.Errorf("%s: the offer of %s is another", machine, d.HCA.Name)
		}
	}
	for _, g := range r.Groups {
		test.True(t, g.Published || g.Reason != "",
			test.Sprintf("%s: no reason why group %s is not published", machine, g.Group.Name))
	}
}

// The default publishes what was published before there were policies.
func TestDefault(t *testing.T) {
	for _, machine := range machines() {
		snap := snapshot(t, machine)
		var offers []resources.Offer
		for _, h := range snap.Usable() {
			if snap.NetnsMode == rdma.NetnsExclusive {
				break
			}
			offers = append(offers, resources.Offer{HCA: h, Form: resources.FormExclusive})
		}
		want := resources.Slices(offers, nil, snap.NetnsMode, resources.Options{})
		test.Eq(t, want, policy.Default().Apply(snap, policy.State{}).Slices(), test.Sprint(machine))
	}
}

// TestLostMember: a LAG is published as before when a member has lost its link. The condition port-slow says that.
func TestLostMember(t *testing.T) {
	for _, text := range []string{"", sharedPolicy} {
		snap := snapshot(t, "roce-lag")
		want, lags := parse(t, text).Apply(snap, policy.State{}).Slices(), 0
		for _, h := range snap.Usable() {
			if p := h.Port1(); p.LAG.ConfiguredMbps > 0 {
				p.RateMbps /= 2
				lags++
			}
		}
		test.Positive(t, lags)
		test.Eq(t, want, parse(t, text).Apply(snap, policy.State{}).Slices())
	}
}

// A degraded model has no field that the API server would drop.
func TestDegradedIsNotDropped(t *testing.T) {
	for _, text := range []string{sharedPolicy, bothPolicy, cardPolicy, groupPolicy, guardedGroupPolicy} {
		for _, machine := range fixture.Names() {
			r := parse(t, text).Apply(snapshot(t, machine), policy.State{NoCounters: true, NoConsumable: true})
			full := controlplane.Cluster{Node: "node1", Features: controlplane.V136()}
			old := controlplane.Cluster{Node: "node1", Features: controlplane.V134()}
			full.Publish(rdma.Domain, r.Slices())
			old.Publish(rdma.Domain, r.Slices())
			must.Eq(t, full.Slices(), old.Slices(), must.Sprintf("%s: Kubernetes 1.34 drops", machine))
		}
	}
}

// A group with more counters than a device may consume is not published, unless
// claims hold it: then its members' exclusive devices give way.
func TestGroupTooLarge(t *testing.T) {
	snap := snapshot(t, "large")
	c := parse(t, guardedGroupPolicy)
	r := c.Apply(snap, policy.State{})
	if _, ok := publishedGroup(r, "parts"); ok || !strings.Contains(r.Groups[1].Reason, "counter sets") {
		t.Errorf("a group of 1,016 VFs is published, or not for its counters: %s", r.Groups[1].Reason)
	}
	if _, ok := publishedGroup(r, "cards"); !ok {
		t.Errorf("the group of cards is not published: %s", r.Groups[0].Reason)
	}
	var members []string
	for i := range snap.HCAs {
		if snap.HCAs[i].Function == rdma.VF {
			members = append(members, snap.HCAs[i].Name)
		}
	}
	r = c.Apply(snap, policy.State{HeldGroups: map[string][]string{"parts": members}})
	if _, ok := publishedGroup(r, "parts"); !ok {
		t.Errorf("a group that claims hold left the pool: %s", r.Groups[1].Reason)
	}
	for _, d := range r.Decisions {
		must.True(t, !slices.Contains(members, d.HCA.Name) || !d.Form.Exclusive(),
			must.Sprintf("%s can be had alone, and a claim of the group has it", d.HCA.Name))
	}
	valid(t, r.Slices())
}

// One configuration serves all who ask, at the same time.
func TestConcurrent(t *testing.T) {
	c, snap := parse(t, rulesPolicy+"groups: [{name: all}]"), snapshot(t, "dgx-h100-ib")
	want := c.Apply(snap, policy.State{}).Slices()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				test.Eq(t, want, c.Apply(snap, policy.State{}).Slices())
			}
		})
	}
	group.Wait()
}

func BenchmarkApply(b *testing.B) {
	for _, bm := range []struct{ name, policy string }{{"default", ""}, {"both", bothPolicy}, {"rules", rulesPolicy}} {
		for _, machine := range []string{"hgx-h100", "large"} {
			c, snap := parse(b, bm.policy), snapshot(b, machine)
			b.Run(bm.name+"/"+machine, func(b *testing.B) {
				for b.Loop() {
					c.Apply(snap, policy.State{}).Slices()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(snap.HCAs)), "ns/HCA")
			})
		}
	}
}

// publishedGroup returns the published group with that name.
func publishedGroup(r policy.Result, name string) (resources.Group, bool) {
	for _, g := range r.PublishedGroups() {
		if g.Name == name {
			return g, true
		}
	}
	return resources.Group{}, false
}
