package dra_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// twoEntries are the first lines of a configuration with two entries of ipam.
func twoEntries(first, second string) []string {
	return []string{"ipam:", "  rail0: {" + first + "}", "  rail1: {" + second + "}"}
}

const (
	cluster  = "clusterCIDR: [10.244.0.0/16]"
	goodPool = "subnet: 10.81.0.0/16, perNode: 24, " + cluster
	byLabel  = "subnet: 10.80.0.0/16, perNode: 24, label: " + blocks.LabelPrefix + "rdma-block"
)

// wrongFiles are configurations that the driver refuses when it reads them, with the message.
var wrongFiles = map[string]struct {
	lines []string
	says  string
}{
	"overlapping subnets": {
		twoEntries("subnet: 10.81.128.0/17, perNode: 25, "+cluster, goodPool),
		"line 5: ipam.rail1.subnet: 10.81.0.0/16 overlaps 10.81.128.0/17, the subnet of ipam rail0, and both would give " +
			"out its addresses: want a subnet for each, or one entry for both",
	},
	"the pods' network": {
		twoEntries("subnet: 10.244.0.0/16, perNode: 24, "+cluster, goodPool),
		"line 4: ipam.rail0.subnet: 10.244.0.0/16 overlaps 10.244.0.0/16 of clusterCIDR, whose addresses the cluster " +
			"gives to pods: want a network of its own",
	},
	"a block too small": {
		twoEntries("subnet: 10.80.0.0/16, perNode: 31, "+cluster, goodPool),
		"line 4: ipam.rail0.perNode: a block of /31 is too small: its first and last address are given to nobody, so " +
			"want 16 to 30",
	},
	"more blocks than the subnet holds": {
		twoEntries("subnet: 10.80.0.0/16, perNode: 20, "+cluster, goodPool),
		"line 4: ipam.rail0.subnet: 10.80.0.0/16 has 16 blocks of /20, and [10.244.0.0/16] has pod CIDRs of /24 for 256 " +
			"nodes: want a larger subnet or smaller blocks",
	},
	"a foreign label": {
		twoEntries("subnet: 10.80.0.0/16, perNode: 24, label: example.com/block", goodPool),
		`line 4: ipam.rail0.label: a kubelet can set the label "example.com/block" on its own node, and so take the ` +
			"addresses of another one: want a label that begins with node-restriction.kubernetes.io/",
	},
	"two rules for one rail": {
		append(twoEntries(byLabel, goodPool),
			"rules: [{name: one, rail: 0, ipam: rail0}, {name: other, rail: 0, ipam: rail1}]"),
		"line 6: rules[1].ipam: rail 0 has ipam rail0 by rule one, and rail1 by this one: want one network for a rail",
	},
	"an unknown entry": {
		append(twoEntries(byLabel, goodPool), "rules: [{name: one, rail: 0, ipam: rail2}]"),
		`line 6: rules[0].ipam: "rail2" is no entry of ipam, which has rail0, rail1`,
	},
}

// TestWrongFiles: the driver says line and field of a wrong file and what to do, and goes on with the configuration
// before: claims get the addresses of that one.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	hasPodCIDR(n, "10.244.3.0/24")
	m := newConfigMap(t, railConfig...)
	d := start(t, n, attach, m.with(t))
	drivertest.WaitPublished(t, n)
	written, number := n.LastSliceWrite(), 0
	for name, wrong := range wrongFiles {
		t.Run(name, func(t *testing.T) {
			m.set(t, wrong.lines...)
			d.WaitLog("Policy not used, the one before stays in force")
			d.WaitLog(strings.ReplaceAll(wrong.says, `"`, `\"`))
			number++
			pod, ns := inside(t, fmt.Sprint("p", number))
			claim := onRails(reserved(number, pod, "pci-0000-3b-00-0"))
			n.AddClaim(claim)
			prepare(t, n, claim)
			must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
			out, want := ns.IP("-br addr"), fmt.Sprintf("10.80.3.%d/16", number)
			test.StrContains(t, out, want, test.Sprint("addresses"))
			d.Sandboxes().Stopped(t.Context(), pod)
			unprepare(t, n, claim)
			nothingLeft(t, n)
		})
	}
	// Other requests do not count: the events of the driver's start may come late.
	test.EqOp(t, written, n.LastSliceWrite(), test.Sprint("a slice was written"))
}

// nothingLeft checks that a driver has neither specs nor records of claims and interfaces.
func nothingLeft(t *testing.T, n *drivertest.Node, but ...*resourceapi.ResourceClaim) {
	t.Helper()
	wantFiles(t, n, but...)
	left, err := filepath.Glob(filepath.Join(n.PluginDir(), "interfaces", "*.json"))
	test.True(t, err == nil && len(left) == 0, test.Sprintf("records of interfaces %v, %v", left, err))
}

// wrongNodes are nodes without a block of either entry, with the reason of one. The configuration itself is right.
var wrongNodes = map[string]struct {
	podCIDRs []string
	label    string
	device   string // of rail 0, by pod CIDR, or of rail 1, by label
	says     string
}{
	"no pod CIDR": {nil, "", "pci-0000-3b-00-0",
		"node node1 has no pod CIDR (spec.podCIDRs) of the family of clusterCIDR, which says which block of " +
			"10.80.0.0/16 is its: " +
			"wait for the cluster's controller, or use label if the network of this cluster assigns none"},
	"outside of clusterCIDR": {[]string{"10.99.0.0/24"}, "", "pci-0000-3b-00-0",
		"pod CIDR 10.99.0.0/24 of node node1 is in none of the networks of clusterCIDR, [10.244.0.0/16]: name all " +
			"networks of the cluster (kube-controller-manager --cluster-cidr)"},
	"another length": {[]string{"10.244.4.0/25"}, "", "pci-0000-3b-00-0",
		"pod CIDR 10.244.4.0/25 of node node1 has another length than /24, so its block could be another node's: set " +
			"nodeCIDRMaskSize to the length that all nodes have, or use label"},
	"two pod CIDRs": {[]string{"10.244.4.0/24", "10.244.5.0/24"}, "", "pci-0000-3b-00-0",
		"node node1 has several pod CIDRs of one family, [10.244.4.0/24 10.244.5.0/24], so its block of 10.80.0.0/16 is " +
			"ambiguous: use label"},
	"no label": {[]string{"10.99.0.0/24"}, "", "pci-0000-3b-00-1",
		"node node1 has no label node-restriction.kubernetes.io/rdma-block, which says which block of 10.81.0.0/16 is " +
			"its: give each node a number of its own, from 0 to 255 (kubectl label node node1 " +
			"node-restriction.kubernetes.io/rdma-block=NUMBER)"},
	"no number": {[]string{"10.99.0.0/24"}, "first", "pci-0000-3b-00-1",
		`label node-restriction.kubernetes.io/rdma-block of node node1 is "first": want a number from 0 to 255`},
	"too large a number": {[]string{"10.99.0.0/24"}, "256", "pci-0000-3b-00-1",
		"node node1 has block number 256, and 10.81.0.0/16 has 256 blocks of /24: the numbers begin with 0"},
	"the pods' network": {[]string{"10.81.3.0/24"}, "3", "pci-0000-3b-00-1",
		"subnet 10.81.0.0/16 overlaps pod CIDR 10.81.3.0/24 of node node1, whose addresses the cluster gives to pods: " +
			"want a network of its own"},
}

// TestWrongNodes: a node without a block refuses the claims that need one, with the reason. Nothing is left of them.
func TestWrongNodes(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	label := blocks.LabelPrefix + "rdma-block"
	lines := twoEntries("subnet: 10.80.0.0/16, perNode: 24, "+cluster, "subnet: 10.81.0.0/16, perNode: 24, label: "+label)
	lines = append(lines, "rules: [{name: compute, rails: 2, railIPAM: [rail0, rail1]}]")
	start(t, n, attach, newConfigMap(t, lines...).with(t))
	drivertest.WaitPublished(t, n)
	number := 0
	for name, wrong := range wrongNodes {
		t.Run(name, func(t *testing.T) {
			n.ChangeNode(func(node *corev1.Node) {
				node.Spec.PodCIDRs, node.Labels = wrong.podCIDRs, map[string]string{}
				if wrong.label != "" {
					node.Labels[label] = wrong.label
				}
			})
			n.Restart() // the kubelet, so that the driver reads the node
			number++
			pod, ns := inside(t, fmt.Sprint("p", number))
			claim := onRails(reserved(number, pod, wrong.device))
			n.AddClaim(claim)
			drivertest.Eventually(t, func() error {
				if err := prepared(t, n, claim); err == nil || !strings.Contains(err.Error(), wrong.says) {
					return fmt.Errorf("error %w, want %s", err, wrong.says)
				}
				return nil
			})
			test.StrNotContains(t, ns.IP("-br link"), "rdma", test.Sprint("interfaces of the pod"))
			nothingLeft(t, n)
		})
	}
}
