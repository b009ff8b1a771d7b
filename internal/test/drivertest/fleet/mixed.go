package fleet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// Mixed returns a cluster with one of everything that lists show: HCAs of all kinds,
// for one claim, for many, and as both; claims of each kind; a device with a taint; a
// driver that is not ready, and a node without one.
func Mixed(t testing.TB) *Fleet {
	want, claim := controlplane.Want, controlplane.Claim
	f := New(t)
	f.Class("gpu", `device.driver == "`+GPUDriver+`"`)
	f.Node("node1", "dgx-h100-ib", "rules:\n- {name: rails, rails: 8, publish: exclusive, selectors: [{cel: {expression: '"+RDMA+".protocol == \"ib\"'}}]}\n")
	f.Node("node2", "roce-sriov", "partitioning: true\nrules:\n- {name: all, publish: both, shares: 4}\n")
	f.Node("node3", "aws-p5", "")
	f.Node("plain", "none", "")
	f.Pods = f.Pods[:len(f.Pods)-1]
	f.Unpublish("plain")
	f.Pods[2].Status.Conditions[0].Status = corev1.ConditionFalse
	f.Allocate("node1", "train", controlplane.Match(claim(want("gpu", "gpu"), want("nic", "hca.rdma.dev")), "resource.kubernetes.io/pcieRoot"))
	f.Allocate("node2", "share", claim(want("share", "shared.hca.rdma.dev", RDMA+`.ibdev == "mlx5_0"`)))
	f.Allocate("node2", "vf", claim(want("vf", "vf.hca.rdma.dev")))
	f.Allocate("node1", "monitor", claim(controlplane.Request{Name: "all", Class: "hca.rdma.dev", Count: 2, Admin: true})).Namespace = "fabric"
	f.Taint("node1", "pci-0000-5e-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
	f.Pending("waits", claim(want("nic", "hca.rdma.dev", RDMA+`.ibdev == "none"`)))
	f.Pending("gpu-only", claim(want("gpu", "gpu")))
	return f
}

// Short returns a cluster that is nearly full, and a pod that waits: claims, a selector
// and a taint are in its way.
func Short(t testing.TB) (*Fleet, corev1.Pod) {
	count := func(n int64, selectors ...string) resourceapi.DeviceClaim {
		return controlplane.Claim(controlplane.Request{Name: "nics", Class: "hca.rdma.dev", Count: n, Selectors: selectors})
	}
	f := New(t)
	f.Node("node1", "dgx-h100-ib", "")
	f.Node("node2", "hgx-h100", "")
	f.Node("node3", "roce-sriov", "")
	f.Allocate("node1", "train-a", count(6))
	f.Allocate("node1", "train-b", count(4))
	f.Allocate("node2", "infer", count(8))
	f.Taint("node1", "pci-0000-ce-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
	f.Pending("nics", count(2, RDMA+".?rateGbps.orValue(0) >= 200"))
	p := Unschedulable(Pod("nics"), "0/3 nodes are available: 3 cannot allocate all claims. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")
	f.Pods = append(f.Pods, p)
	return f, p
}
