package resources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// autoscalerUtilization is the utilization of a node by Cluster Autoscaler's rule: that of the fullest pool if the node
// has a ResourceSlice, and else that of its CPUs. It is written after kubernetes-sigs/cluster-autoscaler, commit
// 33c3f97bf274, pkg/simulator/utilization/info.go (Calculate) and pkg/simulator/dynamicresources/utils/utilization.go.
// The module itself cannot be had here.
func autoscalerUtilization(cpus float64, published []resourceapi.ResourceSlice, held []string) (highest float64) {
	if len(published) == 0 {
		return cpus
	}
	if slices.ContainsFunc(published, func(s resourceapi.ResourceSlice) bool { return len(s.Spec.SharedCounters) > 0 }) {
		return utilizationOfCounters(published, held)
	}
	all, allocated := map[string]int{}, map[string]int{}
	for i := range published {
		pool := published[i].Spec.Pool.Name
		for _, d := range published[i].Spec.Devices {
			all[pool]++
			if slices.Contains(held, d.Name) {
				allocated[pool]++
			}
		}
		if all[pool] > 0 {
			highest = max(highest, float64(allocated[pool])/float64(all[pool]))
		}
	}
	return highest
}

// utilizationOfCounters is that of one pool with counters, in which devices without counters do not count: the mean of
// the counter sets, each by its fullest counter.
func utilizationOfCounters(published []resourceapi.ResourceSlice, held []string) (mean float64) {
	type counter struct{ set, name string }
	used, sets := map[counter]int64{}, map[string]bool{}
	for i := range published {
		for _, d := range published[i].Spec.Devices {
			for _, consumed := range d.ConsumesCounters {
				sets[consumed.CounterSet] = true
				for name, c := range consumed.Counters {
					if slices.Contains(held, d.Name) {
						used[counter{consumed.CounterSet, name}] += c.Value.Value()
					}
				}
			}
		}
	}
	for i := range published {
		for _, set := range published[i].Spec.SharedCounters {
			fullest := 0.0
			for name, c := range set.Counters {
				fullest = max(fullest, float64(used[counter{set.Name, name}])/float64(c.Value.Value()))
			}
			mean += fullest / float64(len(sets))
		}
	}
	return mean
}

// TestAutoscalerUtilizationOfParts: with partitioning for the storage HCAs alone, a node whose compute HCAs are all
// claimed has the utilization 0.
func TestAutoscalerUtilizationOfParts(t *testing.T) {
	f := fleet.New(t)
	f.Node("node", "dgx-h100-ib", `
partitioning: true
rules:
- name: storage
  publish: both
  selectors: [{cel: {expression: 'device.attributes["rdma.dev"].protocol == "roce"'}}]
`)
	var compute, storage []string
	published := slices.DeleteFunc(f.Lists().Slices, func(s resourceapi.ResourceSlice) bool {
		return s.Spec.Driver != rdma.Domain
	})
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			if len(d.ConsumesCounters) == 0 {
				compute = append(compute, d.Name)
			} else {
				storage = append(storage, d.Name)
			}
		}
	}
	test.SliceLen(t, 8, compute)
	test.SliceLen(t, 8, storage, test.Sprint("four HCAs, each as a whole and for shares"))
	test.Eq(t, 0, autoscalerUtilization(1, published, compute))
	whole := slices.DeleteFunc(storage, func(name string) bool { return strings.HasPrefix(name, "shared-") })
	test.SliceLen(t, 4, whole)
	test.InDelta(t, 1, autoscalerUtilization(1, published, whole), 0.005, test.Sprint("all storage HCAs are claimed"))
}

// TestAutoscalerUtilization: what Cluster Autoscaler computes for a node with busy CPUs. It removes a node below 0.5.
func TestAutoscalerUtilization(t *testing.T) {
	f := fleet.New(t)
	f.Node("node", "dgx-h100-ib", "")
	var ours []resourceapi.ResourceSlice
	var devices []string
	for _, s := range f.Lists().Slices {
		if s.Spec.Driver != rdma.Domain {
			continue
		}
		ours = append(ours, s)
		for _, d := range s.Spec.Devices {
			devices = append(devices, d.Name)
			test.SliceEmpty(t, d.ConsumesCounters, test.Sprint(d.Name))
		}
	}
	test.SliceLen(t, 12, devices)
	storage := f.Allocate("node", "storage", controlplane.Claim(controlplane.Request{
		Name: "hcas", Class: "hca.rdma.dev", Count: 4, Selectors: []string{fleet.RDMA + `.protocol == "roce"`},
	}))
	var held []string
	for _, r := range storage.Status.Allocation.Devices.Results {
		held = append(held, r.Device)
	}
	// The same HCAs, if those of the storage had a pool of their own.
	var apart []resourceapi.ResourceSlice
	for _, pool := range []string{"compute", "storage"} {
		s := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Pool: resourceapi.ResourcePool{Name: pool}}}
		for _, d := range devices {
			if slices.Contains(held, d) == (pool == "storage") {
				s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: d})
			}
		}
		apart = append(apart, s)
	}
	for _, tc := range []struct {
		name      string
		published []resourceapi.ResourceSlice
		held      []string
		want      float64
	}{
		{"no slice", nil, nil, 1},
		{"a slice without devices, as before ADR 0060", make([]resourceapi.ResourceSlice, 1), nil, 0},
		{"12 HCAs without a claim", ours, nil, 0},
		{"four storage pods on 12 HCAs", ours, held, 0.33},
		{"all HCAs", ours, devices, 1},
		{"four storage pods on a pool of their own, and 8 HCAs without a claim", apart, held, 1},
	} {
		got := autoscalerUtilization(1, tc.published, tc.held)
		test.InDelta(t, tc.want, got, 0.005, test.Sprint(tc.name))
	}
}
