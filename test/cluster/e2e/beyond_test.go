package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// boundedClass allows something of each kind.
const boundedClass = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: bounded.example.com}
spec:
  selectors: [{cel: {expression: device.driver == "rdma.dev"}}]
  config:
  - opaque:
      driver: rdma.dev
      parameters:
        apiVersion: rdma.dev/v1alpha1
        kind: HCAClassConfig
        allow:
          env: [nccl]
          trafficClasses: [104]
          serviceLevels: [3]
          network:
            modes: [macvlan]
            vlans: [100]
            addresses: [10.78.0.0/24]
            ipam: [roce]
            mtuMax: 4200
            gateways: [10.78.0.1/32]
            routes: [10.79.0.0/16]
`

// attempt is what a user tries: parameters of a claim, which of them is refused, and what the class would allow it by.
type attempt struct{ name, parameters, refused, by string }

// beyond are attempts to have what each class of the test does not allow.
var beyond = []attempt{
	{"mode", "network: {mode: ipvlan}", "network.mode", "network.modes"},
	{"vlan", "network: {mode: macvlan, vlan: 200}", "network.vlan", "network.vlans"},
	{"address", "network: {mode: macvlan, addresses: [10.78.1.2/24]}", "network.addresses[0]", "network.addresses"},
	{"ipam", "network: {mode: macvlan, ipam: other}", "network.ipam", "network.ipam"},
	{"mtu", "network: {mode: macvlan, mtu: 9000}", "network.mtu", "network.mtuMax"},
	{"gateway", "network: {mode: macvlan, gateways: [10.78.0.2]}", "network.gateways[0]", "network.gateways"},
	{"route", "network: {mode: macvlan, routes: [{destination: 0.0.0.0/0}]}", "network.routes[0]", "network.routes"},
	{"traffic-class", "trafficClass: 96", "trafficClass", "trafficClasses"},
	{"service-level", "serviceLevel: 5", "serviceLevel", "serviceLevels"},
	{"nodes", "nodes: [verbs, mad]", "nodes[1]", "nodes"},
}

// TestBeyondClass: a user's claim gets nothing that its class does not allow, neither of the class that the chart
// installs, which allows nothing of all this, nor of one that allows something else. The pod's event and kubectl rdma
// why have the refusal, and name the field of the class.
func TestBeyondClass(t *testing.T) {
	rdma := bed.Plugin()
	createClass(t, "bounded.example.com", boundedClass)
	words := attempt{"env", "env: [ucx]", "env[0]", "env"} // the chart's class allows all words
	for class, attempts := range map[string][]attempt{
		"hca.rdma.dev": beyond, "bounded.example.com": append(slices.Clone(beyond), words),
	} {
		t.Run(class, func(t *testing.T) {
			if class == "hca.rdma.dev" {
				needs.Long(t, "the fields are those of bounded.example.com; TestMergeNetwork and TestMergeRefuses of pkg/dra/plan "+
					"have classes that allow nothing")
			}
			n := bed.Namespace(t)
			for _, a := range attempts {
				parameters := fmt.Sprintf("{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, %s}", a.parameters)
				n.Apply(testbed.Template(a.name, class, parameters) +
					testbed.Pod(a.name, "resourceClaimTemplateName: "+a.name))
			}
			for _, a := range attempts {
				want := a.refused + ": Forbidden: "
				n.Event(a.name, want, "allow."+a.by)
				if said := rdma.Why(t, n.Name, a.name); said.Verdict != "unprepared" || !strings.Contains(said.Summary, want) {
					t.Errorf("kubectl rdma why %s: %+v, want %q", a.name, said, want)
				}
				n.Delete(a.name) // the last pods wait for an HCA
			}
		})
	}
}
