package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// publish replaces the HCAs by what a policy makes of them.
func (n *node) publish(machine, config string) {
	n.t.Helper()
	c, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n" + config))
	must.NoError(n.t, err)
	m, err := fixture.Load(machine)
	must.NoError(n.t, err)
	snap, err := rdma.Discover(m.FS(n.t))
	must.NoError(n.t, err)
	n.hcas = nil
	for _, slice := range c.Apply(snap, policy.State{}).Slices() {
		n.hcas = append(n.hcas, slice.Devices...)
	}
}

// railsConfig is the value config of examples/rails-gpu/values.yaml.
func railsConfig(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../examples/rails-gpu/values.yaml"))
	must.NoError(t, err)
	var values struct{ Config any }
	must.NoError(t, yaml.Unmarshal(data, &values))
	if data, err = yaml.Marshal(values.Config); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRails: the claim of docs/nccl.md has the HCA of each rail, in the order of rails, with a GPU below its root. A
// second one finds nothing. TestRailsGPU of test/cluster/e2e runs the pods.
func TestRails(t *testing.T) {
	const machine = "hgx-h100"
	n := newNode(t, machine)
	n.publish(machine, railsConfig(t))
	claim := exampleClaim(t, "rails-gpu/pairs")
	results := n.allocate(claim)
	if len(results) != 16 || n.allocate(claim) != nil {
		t.Fatalf("%d devices, or another claim has some: %v", len(results), results)
	}
	for rail := range 8 {
		hca, gpu := results[2*rail], results[2*rail+1]
		number := n.device(hca).Attributes["rail"].IntValue
		if hca.Request != fmt.Sprint("hca", rail) || number == nil || *number != int64(rail) {
			t.Errorf("rail %d: %+v", rail, hca)
		}
		root := value(n.device(hca), deviceattribute.StandardDeviceAttributePCIeRoot)
		if root == "" || root != value(n.device(gpu), deviceattribute.StandardDeviceAttributePCIeRoot) {
			t.Errorf("rail %d: %+v and %+v", rail, hca, gpu)
		}
	}
}

// TestRailsWithoutGPUs: the claim of docs/gpus-by-plugin.md has the HCAs of all rails, in their order.
func TestRailsWithoutGPUs(t *testing.T) {
	const machine = "hgx-h100"
	n := newNode(t, machine)
	n.publish(machine, railsConfig(t))
	results := n.allocate(exampleClaim(t, "jobs/gpus-by-plugin"))
	must.Len(t, 8, results)
	for rail, hca := range results {
		number := n.device(hca).Attributes["rail"].IntValue
		must.NotNil(t, number)
		test.EqOp(t, int64(rail), *number)
	}
}

// TestRailsAlone: as docs/nccl.md says, the rule of the rails alone matches nine HCAs, so none has a number.
func TestRailsAlone(t *testing.T) {
	const machine = "hgx-h100"
	n := newNode(t, machine)
	n.publish(machine, "rules: [{name: compute, rails: 8}]")
	for _, d := range n.hcas {
		if _, ok := d.Attributes["rail"]; ok {
			t.Errorf("%s has a rail", d.Name)
		}
	}
	if len(n.hcas) != 9 || n.allocate(exampleClaim(t, "rails-gpu/pairs")) != nil {
		t.Errorf("%d HCAs, or the claim has some", len(n.hcas))
	}
	test.StrContains(t, railsConfig(t), "rails: 8", test.Sprint("the example has another rule"))
}
