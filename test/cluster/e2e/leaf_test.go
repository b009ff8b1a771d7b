package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// wiringPlan is the site's table: all of these HCAs are below one leaf switch.
const wiringPlan = `apiVersion: rdma.dev/v1alpha1
kind: LinkTable
links:
- {node: node1, hca: mlx5_0, leaf: leaf-1}
- {node: node1, hca: mlx5_3, leaf: leaf-1}
- {node: node2, hca: mlx5_0, leaf: leaf-1}
- {node: node2, hca: mlx5_3, leaf: leaf-1}
`

// heardLinks is the hosts' file. The fixture's directory is that of both nodes.
const heardLinks = `{"apiVersion": "rdma.dev/v1alpha1", "kind": "LinkTable",
 "links": [{"node": "node2", "hca": "mlx5_3", "leaf": "leaf-9", "port": "Ethernet1/7"}]}`

const leafValues = `
linkTable: wiring
config:
  leafFrom: [file, table]
  leafLabelRail: 0
  rules:
  - {name: rail-0, rail: 0, selectors: [{cel: {expression: 'device.attributes["rdma.dev"].ibdev == "mlx5_0"'}}]}
lockedMemory: {limit: inherit}
`

// TestLeafJob: on two nodes, the pods of examples/leaf-job.yaml land below the leaf switch that is the label of both.
// An HCA that is connected to another switch than planned is named. The test stands for Node Feature Discovery: it
// gives the nodes the labels of the files that the drivers have written.
func TestLeafJob(t *testing.T) {
	needs.Long(t, "a second node; TestLeafSwitch, TestLeafSources and TestMiswired derive attribute, label and condition")
	n := bed.Namespace(t)
	nodes := map[string]*testbed.Bed{"node1": bed, "node2": bed.Second(t)}
	t.Cleanup(func() { n.Kubectl("delete", "jobs", "--all", "--cascade=foreground") }) // while both nodes are there
	links := filepath.Join(bed.HostRoot, "run/rdma.dev/links")
	bed.Inside(t, "sh", "-euc", `mkdir -p "$1" && printf %s "$2" >"$1/links.json"`, "sh", links, heardLinks)
	plan := filepath.Join(links, "plan.yaml")
	bed.Inside(t, "sh", "-euc", `printf %s "$2" >"$1"`, "sh", plan, wiringPlan)
	bed.Kubectl(t, "--namespace=dra-driver-rdma", "create", "configmap", "wiring", "--from-file=links.yaml="+plan)
	t.Cleanup(func() { bed.Kubectl(t, "--namespace=dra-driver-rdma", "delete", "configmap", "wiring") })
	bed.Configure(t, leafValues)

	const label = "rdma.dev/leaf-switch=leaf-1"
	for name, node := range nodes {
		testbed.Eventually(t, "the feature file of "+name, func() error {
			out, err := node.Output("cat", "/etc/kubernetes/node-feature-discovery/features.d/rdma.dev-leaf-switch")
			if err == nil && !strings.Contains(out, label+"\n") {
				err = fmt.Errorf("it is %q", out)
			}
			return err
		})
		bed.Kubectl(t, "label", "node", name, label)
	}
	t.Cleanup(func() { bed.Kubectl(t, "label", "node", "node1", "rdma.dev/leaf-switch-") })

	n.Example("leaf-job")
	n.Kubectl("wait", "--for=condition=Complete", "--timeout=5m", "job/leaf-job")
	on := strings.Fields(n.Kubectl("get", "pods", "--selector=app=leaf-job", "-o", "jsonpath={.items[*].spec.nodeName}"))
	if len(on) != 2 || on[0] == on[1] {
		t.Errorf("the pods ran on %v, want one on each node", on)
	}

	plugin := bed.Plugin()
	testbed.Eventually(t, "the wrong cable", func() error {
		out, err := bed.Output(plugin.Path, "device", "node2/mlx5_3")
		if err == nil && !testbed.ContainsAll(out, []string{"rdma.dev/miswired"}) {
			err = fmt.Errorf("it is not known: %s", out)
		}
		return err
	})
	for start := time.Now(); ; time.Sleep(time.Second) { // the driver must see it for two minutes
		effects := bed.Kubectl(t, "get", "resourceslices", "--field-selector=spec.nodeName=node2", "-o",
			`jsonpath={.items[*].spec.devices[*].taints[?(@.key=="rdma.dev/miswired")].effect}`)
		if effects == "None" {
			break
		}
		if time.Since(start) > 10*time.Minute {
			t.Fatalf("the effects of the condition miswired are %q, want None of one HCA", effects)
		}
	}
}
