package scale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// podsOfNode is how many pods of a gang have HCAs on one node: each has four of eight rails.
const podsOfNode = 2

// railPolicy numbers the HCAs below PCIe switches, which are those of the compute fabric.
const railPolicy = `rules:
- {name: compute, rails: 8, selectors: [{cel: {expression: 'has(` + fleet.RDMA + `.pcieSwitch)'}}]}
`

// gangFile is a gang, as a user would write it without rails.
const gangFile = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: nics}
spec: {spec: {devices: {requests: [{name: nics, exactly: {deviceClassName: hca.rdma.dev, count: 4}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: any}
spec:
  resourceClaims: [{name: nics, resourceClaimTemplateName: nics}]
  containers: [{name: main, image: none, resources: {claims: [{name: nics}]}}]
`

// talk counts pods of gangs, and the pairs of a first and a second half, such as prefill and decode.
type talk struct {
	way            string
	gangs, able    int // able are the gangs whose pairs all can talk
	pods, placed   int
	pairs, talking int
}

// BenchmarkRails runs the same gangs with claims as users write them, and with those of kubectl rdma rails, on rails
// that have no connection, and counts the pairs of pods that can talk.
func BenchmarkRails(b *testing.B) {
	plan := planOf(*seed, podsOfNode**nodeCount, *jobCount, load)
	var results []talk
	var version string
	none := func(job) *corev1.PodAffinity { return nil }
	for _, w := range []way{{name: "first fit", affinity: none}, {name: "kubectl rdma rails", affinity: none}} {
		b.Run(w.name, func(b *testing.B) {
			s := newSimulation(b, railPolicy)
			version = s.version()
			began := time.Now()
			results = append(results, s.gangs(plan, w))
			fmt.Printf("%s: %d steps in %s\n", w.name, len(plan), time.Since(began).Round(time.Second))
		})
	}
	if !b.Failed() {
		publishRails(b, version, results)
	}
}

// gangs runs the gangs of a plan.
func (s *simulation) gangs(plan []step, w way) talk {
	out := talk{way: w.name}
	for _, st := range plan {
		if st.ends {
			s.end(st.job)
			continue
		}
		s.wants = s.claimOfGang(w.name != "first fit")
		s.start(st.job, w)
		s.settle(st.job)
		s.count(&out, st.job)
	}
	return out
}

// claimOfGang returns the claim of each pod of a gang. With rails, it is what kubectl rdma rails writes.
func (s *simulation) claimOfGang(rails bool) resourceapi.DeviceClaim {
	s.Helper()
	r := manifest.Reader{Namespace: usersNamespace}
	must.NoError(s, r.Read([]byte(gangFile)))
	m, err := r.Manifest()
	must.NoError(s, err)
	if rails {
		c, err := collect.Reader{Client: s.client}.Read(s.Context(), collect.Slices, collect.Classes, collect.Claims)
		must.NoError(s, err)
		_, err = m.SetRails(s.Context(), c.View(), nil)
		must.NoError(s, err)
	} else { // the storage's HCA has no rail
		m.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: "has(" + fleet.RDMA + ".rail)"}}}
	}
	return m.Templates[0].Spec.Spec.Devices
}

// count adds a gang. The first half of its pods talks with the second.
func (s *simulation) count(out *talk, j job) {
	var halves [2][]string
	for n := range j.nodes {
		out.pods++
		if rails := s.railsOf(j.pod(n)); rails != "" {
			out.placed++
			halves[n%2] = append(halves[n%2], rails)
		}
	}
	failed := 0
	for _, a := range halves[0] {
		for _, b := range halves[1] {
			out.pairs++
			if a == b {
				out.talking++
			} else {
				failed++
			}
		}
	}
	out.gangs++
	if failed == 0 && len(halves[0])+len(halves[1]) == j.nodes {
		out.able++
	}
}

// railsOf returns the rails of a pod's HCAs, in order, "" for a pod without a node.
func (s *simulation) railsOf(pod string) string {
	claim, err := s.claims.ResourceClaims(usersNamespace).Get(pod)
	if err != nil || claim.Status.Allocation == nil {
		return ""
	}
	var rails []int64
	for _, r := range claim.Status.Allocation.Devices.Results {
		rails = append(rails, s.rails[r.Device])
	}
	slices.Sort(rails)
	return fmt.Sprint(rails)
}

// railsByName are the rails of a node's devices.
func railsByName(published []resourceapi.ResourceSlice) map[string]int64 {
	out := map[string]int64{}
	for i := range published {
		for _, d := range published[i].Spec.Devices {
			if rail := d.Attributes[rdma.AttributeRail].IntValue; rail != nil {
				out[d.Name] = *rail
			}
		}
	}
	return out
}

// publishRails writes the table.
func publishRails(t testing.TB, version string, results []talk) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %s, %s.\n"+
		"%d nodes of eight rails, %d gangs of 4 to 64 pods with four HCAs each, load %.0f %%, seed %d.\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(t), version, *nodeCount, *jobCount, 100*load, *seed)
	out.WriteString("| | pairs that can talk | gangs whose pairs all can | pods without a node |\n|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&out, "| %s | %d of %d (%.0f %%) | %d of %d | %d of %d |\n", r.way, r.talking, r.pairs,
			100*float64(r.talking)/float64(max(1, r.pairs)), r.able, r.gangs, r.pods-r.placed, r.pods)
	}
	publish(t, "rails.md", out.String())
}
