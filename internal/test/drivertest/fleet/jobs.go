package fleet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// Jobs returns a cluster with jobs of several pods: a JobSet with a faulty HCA, a Job and a Deployment without a fault
// of their HCAs, a pod that waits for its claim, and a pod that has ended.
func Jobs(t testing.TB) *Fleet {
	f := New(t)
	f.Node("node1", "dgx-h100-ib", "")
	f.Node("node2", "hgx-h100", "")
	for i := range 7 {
		pod := f.run(fmt.Sprintf("llm-workers-%d", i), fmt.Sprintf("node%d", 1+i%2), "Job", "llm-workers")
		pod.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": "llm"}
	}
	f.run("allreduce-0", "node1", "Job", "allreduce")
	f.run("allreduce-1", "node2", "Job", "allreduce")
	infer := f.run("infer-5c9-x7k2p", "node2", "ReplicaSet", "infer-5c9")
	infer.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "main", RestartCount: 3,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "back-off 40s restarting failed container",
		}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137,
		}},
	}
	f.Pending("debug", controlplane.Claim(controlplane.Request{Name: "nic", Class: "hca.rdma.dev", Count: 64}))
	debug := Pod("debug")
	debug.Name = "debug"
	f.Pods = append(f.Pods, debug, Pod())
	f.run("allreduce-old", "node1", "Job", "allreduce").Status.Phase = corev1.PodSucceeded
	taken := f.Claims["llm-workers-4"].Status.Allocation.Devices.Results[0]
	f.Taint(taken.Pool, taken.Device, "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
	return f
}

// run adds a running pod of a controller, with a claim for one HCA.
func (f *Fleet) run(name, node, kind, controller string) *corev1.Pod {
	f.Helper()
	claim := f.Allocate(node, name, controlplane.Claim(controlplane.Request{Name: "nic", Class: "hca.rdma.dev", Count: 1}))
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: name, UID: types.UID(name)},
	}
	pod := Running(On(Pod(name), node))
	pod.Name, pod.UID = name, types.UID(name)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: controller, Controller: new(true)}}
	f.Pods = append(f.Pods, pod)
	return &f.Pods[len(f.Pods)-1]
}
