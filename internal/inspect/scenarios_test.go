package inspect_test

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const pcieRoot = "resource.kubernetes.io/pcieRoot"

var (
	claim = controlplane.Claim
	want  = controlplane.Want
)

func count(name, class string, n int64, selectors ...string) controlplane.Request {
	return controlplane.Request{Name: name, Class: class, Count: n, Selectors: selectors}
}

// scenario is a pod to explain, in a cluster that a function makes.
type scenario struct {
	name    string
	make    func(*fleet.Fleet) inspect.Question
	verdict inspect.Verdict
	// reasons are those of the findings, rulings of the reports, and changes of the
	// remedies that must be there: each is a reason for which pods wait.
	findings []string
	rulings  []inspect.Reason
	changes  []inspect.Change
	// unread could not be read.
	unread []inspect.Unread
}

var scenarios = []scenario{{
	name: "mixed", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		short, p := fleet.Short(b)
		*b = *short
		return inspect.Question{Pod: p}
	},
	rulings: []inspect.Reason{inspect.RuledClaim, inspect.RuledSelector, inspect.RuledTaint},
	changes: []inspect.Change{inspect.ChangeEnd, inspect.ChangeToleration, inspect.ChangeCount},
}, {
	name: "selector", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "dgx-h100-ib", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev", fleet.RDMA+`.protocol == "ib"`,
			fleet.RDMA+".?rateGbps.orValue(0) >= 800")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
	rulings: []inspect.Reason{inspect.RuledSelector}, changes: []inspect.Change{inspect.ChangeSelector},
}, {
	name: "taint", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Taint("node1", "pci-0000-3b-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
		b.Taint("node1", "pci-0000-3b-00-1", "rdma.dev/draining", resourceapi.DeviceTaintEffectNoSchedule)
		b.Pending("nics", claim(count("nics", "hca.rdma.dev", 2)))
		return inspect.Question{Pod: fleet.Pod("nics")}
	},
	rulings: []inspect.Reason{inspect.RuledTaint}, changes: []inspect.Change{inspect.ChangeToleration},
}, {
	name: "taint-rule", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Rule("too-wide", rdma.Domain, "example.com/maintenance", resourceapi.DeviceTaintEffectNoSchedule)
		b.Rule("harmless", rdma.Domain, "example.com/note", resourceapi.DeviceTaintEffectNone)
		b.Rule("of-others", fleet.GPUDriver, "example.com/gpu", resourceapi.DeviceTaintEffectNoExecute)
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
	rulings: []inspect.Reason{inspect.RuledTaint}, changes: []inspect.Change{inspect.ChangeToleration},
}, {
	name: "taint-both", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Taint("node1", "pci-0000-3b-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
		b.Taint("node1", "pci-0000-3b-00-1", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
		b.Rule("maintenance", rdma.Domain, "example.com/maintenance", resourceapi.DeviceTaintEffectNoExecute)
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
	rulings: []inspect.Reason{inspect.RuledTaint}, changes: []inspect.Change{inspect.ChangeToleration},
}, {
	name: "taint-rule-tolerated", verdict: inspect.VerdictSchedulable,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Rule("maintenance", rdma.Domain, "example.com/maintenance", resourceapi.DeviceTaintEffectNoExecute)
		c := b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		c.Spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{
			Key: "example.com/maintenance", Operator: resourceapi.DeviceTolerationOpExists,
		}}
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "impaired-rule", verdict: inspect.VerdictImpaired, findings: []string{"DeviceTainted"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Rule("maintenance", rdma.Domain, "example.com/maintenance", resourceapi.DeviceTaintEffectNoSchedule)
		return inspect.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))}
	},
}, {
	name: "constraint", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("pair", controlplane.Match(claim(
			want("a", "hca.rdma.dev", fleet.RDMA+`.ibdev == "mlx5_0"`),
			want("b", "hca.rdma.dev", fleet.RDMA+`.ibdev == "mlx5_2"`),
		), pcieRoot))
		return inspect.Question{Pod: fleet.Pod("pair")}
	},
	findings: []string{"Together"}, changes: []inspect.Change{inspect.ChangeConstraint},
}, {
	name: "capacity", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "rules:\n- {name: all, publish: shared, shares: 4}\n")
		three := func() controlplane.Request {
			r := want("share", "shared.hca.rdma.dev", fleet.RDMA+`.function == "pf"`)
			r.Capacity = map[string]string{"shares": "3"}
			return r
		}
		b.Allocate("node1", "big-0", claim(three()))
		b.Allocate("node1", "big-1", claim(three()))
		b.Pending("share", claim(three()))
		return inspect.Question{Pod: fleet.Pod("share")}
	},
	rulings: []inspect.Reason{inspect.RuledCapacity}, changes: []inspect.Change{inspect.ChangeCapacity, inspect.ChangeEnd},
}, {
	name: "counters", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "partitioning: true\nrules:\n- {name: all, publish: both}\n")
		b.Allocate("node1", "share-0", claim(want("share", "shared.hca.rdma.dev", fleet.RDMA+`.ibdev == "mlx5_0"`)))
		b.Allocate("node1", "share-1", claim(want("share", "shared.hca.rdma.dev", fleet.RDMA+`.ibdev == "mlx5_1"`)))
		b.Pending("whole", claim(want("whole", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("whole")}
	},
	rulings: []inspect.Reason{inspect.RuledCounters}, changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "nodes", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Node("node2", "none", "")
		b.Node("node3", "hgx-h100", "")
		b.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		p := fleet.Pod("nic")
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"node2", "node3"}}}}},
		}}}
		return inspect.Question{Pod: p}
	},
	rulings: []inspect.Reason{inspect.RuledNode}, changes: []inspect.Change{inspect.ChangeNodes},
}, {
	name: "first-available", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "all", claim(count("nics", "hca.rdma.dev", 9)))
		b.Pending("nic", claim(controlplane.Request{Name: "nic", First: []controlplane.Request{want("vf", "vf.hca.rdma.dev"),
			want("pf", "hca.rdma.dev")}}))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
	findings: []string{"ClassEmpty"}, rulings: []inspect.Reason{inspect.RuledClaim},
	changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "two-claims", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Node("node2", "roce-sriov", "")
		b.Pending("left", claim(count("nics", "hca.rdma.dev", 2)))
		b.Pending("right", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("left", "right")}
	},
	findings: []string{"Together"}, changes: []inspect.Change{inspect.ChangeOthers, inspect.ChangeCount},
}, {
	name: "all-devices", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		c := b.Pending("all", claim(want("nics", "hca.rdma.dev")))
		c.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		c.Spec.Devices.Requests[0].Exactly.Count = 0
		return inspect.Question{Pod: fleet.Pod("all")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim}, changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "never", verdict: inspect.VerdictUnallocated, findings: []string{"NeverFits"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		b.Pending("nics", claim(count("nics", "hca.rdma.dev", 4)))
		return inspect.Question{Pod: fleet.Pod("nics")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim}, changes: []inspect.Change{inspect.ChangeCount},
}, {
	name: "class-missing", verdict: inspect.VerdictBroken, findings: []string{"ClassMissing"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.example")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "parameters-forbidden", verdict: inspect.VerdictBroken, findings: []string{"ParametersForbidden"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Class("training.example.com").Spec.Config = []resourceapi.DeviceClassConfiguration{
			{DeviceConfiguration: parameters("HCAClassConfig", `"allow": {"trafficClasses": [106], "nodes": ["verbs"]}`)},
		}
		c := claim(want("nic", "training.example.com"), want("other", "hca.rdma.dev"))
		c.Config = []resourceapi.DeviceClaimConfiguration{
			{DeviceConfiguration: parameters("HCAConfig", `"env": ["nccl"], "trafficClass": 106`), Requests: []string{"nic"}},
			{DeviceConfiguration: parameters("HCAConfig", `"env": ["nccl"], "trafficClass": 104`), Requests: []string{"other"}},
			{DeviceConfiguration: parameters("HCAConfig", `"fieldOfLaterVersion": true`)},
		}
		b.Pending("nic", c)
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "class-empty", verdict: inspect.VerdictUnallocated, findings: []string{"ClassEmpty"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "vf.hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "no-driver", verdict: inspect.VerdictUnallocated, findings: []string{"NoDevices"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "selector-error", verdict: inspect.VerdictBroken, findings: []string{"SelectorError"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "aws-p5", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev", fleet.RDMA+`.netdev.startsWith("ib")`)))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "template-missing", verdict: inspect.VerdictBroken, findings: []string{"TemplateMissing"},
	make: func(*fleet.Fleet) inspect.Question {
		return inspect.Question{Pod: ofTemplate("training-nics"), Templates: map[string]bool{"training-nics": false}}
	},
}, {
	name: "claim-missing", verdict: inspect.VerdictBroken, findings: []string{"ClaimMissing"},
	make: func(*fleet.Fleet) inspect.Question {
		return inspect.Question{Pod: fleet.Unschedulable(fleet.Pod("nics"), "0/1 nodes are available: resourceclaim 'nics' not found.")}
	},
}, {
	name: "publishes-nothing", verdict: inspect.VerdictUnallocated, findings: []string{"NoDevices"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Unpublish("node1")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "other-driver-failed", verdict: inspect.VerdictUnprepared, findings: []string{"PrepareFailed"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Class("gpu", `device.driver == "`+fleet.GPUDriver+`"`)
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Allocate("node1", "accelerator", claim(want("gpu", "gpu")))
		return inspect.Question{Pod: fleet.On(fleet.Pod("nic", "accelerator"), "node1"), Events: []corev1.Event{{
			Reason: "FailedPrepareDynamicResources",
			// prepareResources in pkg/kubelet/cm/dra/manager.go of Kubernetes 1.37
			Message: "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim accelerator: no such GPU",
		}}}
	},
}, {
	name: "other-scheduler", verdict: inspect.VerdictSchedulable,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		p := fleet.Pod("nic")
		p.Spec.SchedulerName = "volcano"
		return inspect.Question{Pod: p}
	},
}, {
	name: "not-created", verdict: inspect.VerdictBroken, findings: []string{"ClaimNotCreated"},
	make: func(*fleet.Fleet) inspect.Question { return inspect.Question{Pod: ofTemplate("training-nics")} },
}, {
	name: "admin-refused", verdict: inspect.VerdictBroken, findings: []string{"AdminAccessForbidden"},
	make: func(*fleet.Fleet) inspect.Question {
		return inspect.Question{Pod: ofTemplate("monitor"), Templates: map[string]bool{"monitor": true},
			Events: []corev1.Event{{
				Reason: "FailedResourceClaimCreation",
				Message: "PodResourceClaim devices: failed to create ResourceClaim: resourceclaims is forbidden: " +
					"admin access to devices requires the `resource.kubernetes.io/admin-access: true` label " +
					"on the containing namespace",
			}}}
	},
}, {
	name: "admin-label-gone", verdict: inspect.VerdictBroken, findings: []string{"AdminAccessForbidden"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("monitor", claim(controlplane.Request{Name: "all", Class: "hca.rdma.dev", Admin: true}))
		return inspect.Question{Pod: fleet.Pod("monitor"), NamespaceLabels: map[string]string{}}
	},
}, {
	name: "claim-deleted", verdict: inspect.VerdictBroken, findings: []string{"ClaimDeleted"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev"))).DeletionTimestamp = &metav1.Time{}
		return inspect.Question{Pod: fleet.Pod("nic")}
	},
}, {
	name: "extended-short", verdict: inspect.VerdictUnallocated,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "rules:\n- {name: pf, publish: shared, shares: 4, selectors: [{cel: {expression: '"+fleet.RDMA+".function == \"pf\"'}}]}\n")
		b.Classes[2].Spec.ExtendedResourceName = new("rdma/hca")
		return inspect.Question{Pod: wantsResource("rdma/hca", "3")}
	},
	changes: []inspect.Change{inspect.ChangeCount},
}, {
	name: "extended-unknown", verdict: inspect.VerdictBroken, findings: []string{"ExtendedResourceUnknown"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		return inspect.Question{Pod: wantsResource("rdma/hca", "1")}
	},
}, {
	name: "fits", verdict: inspect.VerdictSchedulable,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Unschedulable(fleet.Pod("nic"), "0/1 nodes are available: 1 Insufficient memory.")}
	},
}, {
	name: "node-name", verdict: inspect.VerdictBroken, findings: []string{"NotScheduled"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.On(fleet.Pod("nic"), "node1")}
	},
}, {
	name: "prepare-failed", verdict: inspect.VerdictUnprepared, findings: []string{"PrepareFailed"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.On(fleet.Pod("nic"), "node1"), Events: []corev1.Event{{
			Reason:  "FailedPrepareDynamicResources",
			Message: `Failed to prepare dynamic resources: NodePrepareResources failed for claim default/nic: request nic: config: unknown field "memlok"`,
		}}}
	},
}, {
	name: "pod-group-init", verdict: inspect.VerdictUnprepared, findings: []string{"ClaimOfInitContainers"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		nic := b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		nic.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{
			APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "workers", UID: "workers",
		}}
		pod := fleet.On(fleet.Pod("nic"), "node1")
		names := corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "nic"}}}
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: names}}
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		return inspect.Question{Pod: pod}
	},
}, {
	name: "driver-missing", verdict: inspect.VerdictUnprepared, findings: []string{"DriverMissing"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "uninstall"}}
		return inspect.Question{Pod: fleet.On(fleet.Pod("nic"), "node1")}
	},
}, {
	name: "driver-not-ready", verdict: inspect.VerdictUnprepared,
	findings: []string{"DriverNotReady", "DeviceNotPublished"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Pods[0].Status.Conditions = nil
		b.Unpublish("node1")
		return inspect.Question{Pod: fleet.On(fleet.Pod("nic"), "node1")}
	},
}, {
	name: "impaired", verdict: inspect.VerdictImpaired, findings: []string{"DeviceNotReady", "DeviceTainted"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		c := b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		r := c.Status.Allocation.Devices.Results[0]
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device,
			Conditions: []metav1.Condition{{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: "DeviceMissing",
				Message: "the node has no RDMA device in the slot pci-0000-19-00-0 now",
			}}}}
		b.Taint("node1", r.Device, "rdma.dev/device-gone", resourceapi.DeviceTaintEffectNoSchedule)
		return inspect.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))}
	},
}, {
	name: "unusable", verdict: inspect.VerdictImpaired, findings: []string{"DeviceNotUsable"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		used(b, metav1.Condition{
			Type: "Usable", Status: metav1.ConditionFalse, Reason: "ProviderUnusable",
			Message: `container train: provider of mlx5_0: the container has no provider mlx5: install ibverbs-providers`,
		})
		return inspect.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))}
	},
}, {
	name: "usable", verdict: inspect.VerdictFine,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		used(b, metav1.Condition{
			Type: "Usable", Status: metav1.ConditionTrue, Reason: "Checked",
			Message: `container train: provider of mlx5_0: provider "/usr/lib/libibverbs/libmlx5-rdmav34.so"`,
		})
		return inspect.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))}
	},
}, {
	name: "fine", verdict: inspect.VerdictFine,
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))}
	},
}, {
	name: "no-claims", verdict: inspect.VerdictNoClaims,
	make: func(*fleet.Fleet) inspect.Question { return inspect.Question{Pod: fleet.Pod()} },
}, {
	name: "ended", verdict: inspect.VerdictDone,
	make: func(*fleet.Fleet) inspect.Question {
		p := fleet.Pod("nic")
		p.Status.Phase = corev1.PodSucceeded
		return inspect.Question{Pod: p}
	},
}, {
	name: "gated", verdict: inspect.VerdictBroken, findings: []string{"SchedulingGated"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Pending("nic", claim(want("nic", "hca.rdma.dev")))
		p := fleet.Pod("nic")
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		return inspect.Question{Pod: p}
	},
}, {
	name: "image", verdict: inspect.VerdictUnprepared, findings: []string{"ContainerWaiting"},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "hgx-h100", "")
		b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		p := fleet.On(fleet.Pod("nic"), "node1")
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
			Message: "not found"}
		return inspect.Question{Pod: p}
	},
}, {
	name: "forbidden", verdict: inspect.VerdictUnallocated,
	unread: []inspect.Unread{{
		Kind: inspect.Nodes,
		Why:  `nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`,
	}},
	make: func(b *fleet.Fleet) inspect.Question {
		b.Node("node1", "roce-sriov", "")
		b.Allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		b.Pending("nics", claim(count("nics", "hca.rdma.dev", 2)))
		b.Nodes, b.Pods = nil, nil
		p := fleet.Pod("nics")
		p.Spec.NodeSelector = map[string]string{"nobody": "knows"}
		return inspect.Question{Pod: p}
	},
	rulings: []inspect.Reason{inspect.RuledClaim},
}}

func ofTemplate(name string) corev1.Pod {
	p := fleet.Pod()
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	return p
}

// parameters are those of a class or a claim.
func parameters(kind, fields string) resourceapi.DeviceConfiguration {
	raw := `{"apiVersion": "rdma.dev/v1alpha1", "kind": "` + kind + `", ` + fields + `}`
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: rdma.Domain, Parameters: runtime.RawExtension{Raw: []byte(raw)},
	}}
}

func wantsResource(name corev1.ResourceName, amount string) corev1.Pod {
	p := fleet.Pod()
	list := corev1.ResourceList{name: resource.MustParse(amount)}
	p.Spec.Containers = []corev1.Container{{Name: "main",
		Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}

// used allocates a claim whose device status is that of a container with an interface.
func used(b *fleet.Fleet, condition metav1.Condition) {
	c := b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
	r := c.Status.Allocation.Devices.Results[0]
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{condition},
		Data: &runtime.RawExtension{Raw: []byte(`{"hcas":[{"ibdev":"mlx5_0","name":"pci-0000-19-00-0","ports":[{"gids":[` +
			`{"gid":"fe80::a2ff","index":0,"type":"RoCE v2"},{"gid":"10.80.1.2","index":3,"type":"RoCE v2"}],"number":1}]}]}`)},
		NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "rdma0", IPs: []string{"10.80.1.2/16"}},
	}}
}
