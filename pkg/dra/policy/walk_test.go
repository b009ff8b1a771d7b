package policy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// model is a published device as docs/sharing.md explains it, without counters.
type model struct {
	name   string
	alone  string          // the HCA that it gives to one claim alone
	uses   map[string]bool // the HCAs that its claims use, with the cards of VFs and SFs
	shares int
	claim  resourceapi.DeviceClaim
}

// excludes reports whether claims cannot have both devices at a time.
func (m *model) excludes(other *model) bool {
	return m != other && (m.alone != "" && other.uses[m.alone] || other.alone != "" && m.uses[other.alone])
}

// models returns the devices of a result.
func models(snap *rdma.Snapshot, r policy.Result) []*model {
	var out []*model
	for _, o := range r.Offers() {
		uses := using(snap, o.HCA)
		selector := fmt.Sprintf(`device.attributes["rdma.dev"].?ibdev.orValue("") == %q`, o.HCA.IBDev)
		if o.Form.Exclusive() {
			out = append(out, &model{
				name: o.HCA.Name, alone: o.HCA.Name, uses: uses, shares: 1,
				claim: controlplane.Claim(controlplane.Want("nic", "any", selector, `!device.attributes["rdma.dev"].shared`)),
			})
		}
		if o.Form.Shared() {
			out = append(out, &model{
				name: devicename.Shared(o.HCA.Name), uses: uses, shares: 63,
				claim: controlplane.Claim(controlplane.Want("nic", "any", selector, `device.attributes["rdma.dev"].shared`)),
			})
		}
	}
	for _, g := range r.PublishedGroups() {
		out = append(out, &model{
			name: devicename.Group(g.Name), uses: using(snap, g.Members...), shares: int(g.Shares),
			claim: controlplane.Claim(controlplane.Want("nic", "any",
				fmt.Sprintf(`device.attributes["rdma.dev"].?group.orValue("") == %q`, g.Name))),
		})
	}
	return out
}

// using lists HCAs and the PFs of their cards.
func using(snap *rdma.Snapshot, hcas ...*rdma.HCA) map[string]bool {
	out := map[string]bool{}
	for _, h := range hcas {
		out[h.Name] = true
		for _, card := range snap.HCAs {
			if h.PF != "" && card.PF == "" && card.Identity.PCI == h.PF {
				out[card.Name] = true
			}
		}
	}
	return out
}

// TestWalk makes and ends claims at random on every machine. The scheduler gives a
// device exactly when the model does: neither more, which would let claims collide,
// nor less, which would waste HCAs.
func TestWalk(t *testing.T) {
	steps := 75
	switch {
	case testing.Short():
		steps = 30
	case os.Getenv("TEST_LONG") != "":
		steps = 500
	}
	for _, text := range []string{bothPolicy, cardPolicy, guardedGroupPolicy} {
		for _, machine := range machines() {
			if machine == "large" && text != cardPolicy {
				continue
			}
			snap := snapshot(t, machine)
			w := walk{
				t: t, random: rand.New(rand.NewPCG(1, 2)), held: map[string]*model{},
				cluster: newCluster(t, machine, text, controlplane.V136()),
				devices: models(snap, parse(t, text).Apply(snap, policy.State{})),
			}
			if snap.NetnsMode == rdma.NetnsExclusive || len(w.devices) == 0 {
				continue
			}
			w.cluster.Classes = append(w.cluster.Classes, controlplane.Class("any", `device.driver == "rdma.dev"`))
			w.narrow()
			for range steps {
				w.step()
			}
			t.Logf("%s: %d given, %d refused", machine, w.given, w.refused)
			must.False(t, t.Failed(), must.Sprintf("%s, with the policy\n%s", machine, text))
		}
	}
}

type walk struct {
	t       *testing.T
	random  *rand.Rand
	cluster *controlplane.Cluster
	devices []*model
	held    map[string]*model // by claim
	given   int
	refused int
}

// narrow keeps to the devices of one card and a few others, so that they meet.
func (w *walk) narrow() {
	if n := len(w.devices); n > 24 {
		w.devices = append(w.devices[:16:16], w.devices[n-8:]...)
	}
}

// step makes a claim, or ends one.
func (w *walk) step() {
	if len(w.held) > 0 && w.random.IntN(5) < 2 {
		names := slices.Sorted(maps.Keys(w.held))
		name := names[w.random.IntN(len(names))]
		w.cluster.Release(name)
		delete(w.held, name)
		return
	}
	d := w.devices[w.random.IntN(len(w.devices))]
	w.claim(fmt.Sprintf("claim-%d", w.given+w.refused), d)
}

func (w *walk) claim(name string, d *model) {
	want, taken := true, 0
	for _, other := range w.held {
		want = want && !d.excludes(other)
		if other == d {
			taken++
		}
	}
	want = want && taken < d.shares
	got := take(w.t, w.cluster, name, d.claim)
	if (got != nil) != want {
		var beside []string
		for _, other := range w.held {
			beside = append(beside, other.name)
		}
		slices.Sort(beside)
		w.t.Errorf("a claim for %s gets %v beside claims for %v", d.name, got, beside)
	}
	if got == nil {
		w.refused++
		return
	}
	w.given++
	w.held[name] = d
	test.Eq(w.t, "nic="+d.name, got[0], test.Sprintf("a claim for %s gets %v", d.name, got))
}
