package inspect_test

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/inspect"
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
	make    func(*bed) inspect.Question
	verdict inspect.Verdict
	// reasons are those of the findings, rulings of the reports, and changes of the
	// remedies that must be there: each is a reason for which pods wait.
	findings []string
	rulings  []inspect.Reason
	changes  []inspect.Change
}

var scenarios = []scenario{{
	name: "mixed", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "dgx-h100-ib", "")
		b.node("node2", "hgx-h100", "")
		b.node("node3", "roce-sriov", "")
		b.allocate("node1", "train-a", claim(count("nics", "hca.rdma.dev", 6)))
		b.allocate("node1", "train-b", claim(count("nics", "hca.rdma.dev", 4)))
		b.allocate("node2", "infer", claim(count("nics", "hca.rdma.dev", 8)))
		b.taint("node1", "pci-0000-ce-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
		b.pending("nics", claim(count("nics", "hca.rdma.dev", 2, rdmaAttr+".?rateGbps.orValue(0) >= 200")))
		return inspect.Question{Pod: unschedulable(pod("nics"), "0/3 nodes are available: 3 cannot allocate all claims.")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim, inspect.RuledSelector, inspect.RuledTaint},
	changes: []inspect.Change{inspect.ChangeEnd, inspect.ChangeToleration, inspect.ChangeCount},
}, {
	name: "selector", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "dgx-h100-ib", "")
		b.pending("nic", claim(want("nic", "hca.rdma.dev", rdmaAttr+`.protocol == "ib"`, rdmaAttr+".?rateGbps.orValue(0) >= 800")))
		return inspect.Question{Pod: pod("nic")}
	},
	rulings: []inspect.Reason{inspect.RuledSelector}, changes: []inspect.Change{inspect.ChangeSelector},
}, {
	name: "taint", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		b.taint("node1", "pci-0000-3b-00-0", "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule)
		b.taint("node1", "pci-0000-3b-00-1", "rdma.dev/draining", resourceapi.DeviceTaintEffectNoSchedule)
		b.pending("nics", claim(count("nics", "hca.rdma.dev", 2)))
		return inspect.Question{Pod: pod("nics")}
	},
	rulings: []inspect.Reason{inspect.RuledTaint}, changes: []inspect.Change{inspect.ChangeToleration},
}, {
	name: "constraint", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("pair", controlplane.Match(claim(
			want("a", "hca.rdma.dev", rdmaAttr+`.ibdev == "mlx5_0"`), want("b", "hca.rdma.dev", rdmaAttr+`.ibdev == "mlx5_2"`),
		), pcieRoot))
		return inspect.Question{Pod: pod("pair")}
	},
	findings: []string{"Together"}, changes: []inspect.Change{inspect.ChangeConstraint},
}, {
	name: "capacity", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "rules:\n- {name: all, publish: shared, shares: 4}\n")
		three := func() controlplane.Request {
			r := want("share", "shared.hca.rdma.dev", rdmaAttr+`.function == "pf"`)
			r.Capacity = map[string]string{"shares": "3"}
			return r
		}
		b.allocate("node1", "big-0", claim(three()))
		b.allocate("node1", "big-1", claim(three()))
		b.pending("share", claim(three()))
		return inspect.Question{Pod: pod("share")}
	},
	rulings: []inspect.Reason{inspect.RuledCapacity}, changes: []inspect.Change{inspect.ChangeCapacity, inspect.ChangeEnd},
}, {
	name: "counters", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "partitioning: true\nrules:\n- {name: all, publish: both}\n")
		b.allocate("node1", "share-0", claim(want("share", "shared.hca.rdma.dev", rdmaAttr+`.ibdev == "mlx5_0"`)))
		b.allocate("node1", "share-1", claim(want("share", "shared.hca.rdma.dev", rdmaAttr+`.ibdev == "mlx5_1"`)))
		b.pending("whole", claim(want("whole", "hca.rdma.dev")))
		return inspect.Question{Pod: pod("whole")}
	},
	rulings: []inspect.Reason{inspect.RuledCounters}, changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "nodes", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.node("node2", "none", "")
		b.node("node3", "hgx-h100", "")
		b.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
		b.pending("nic", claim(want("nic", "hca.rdma.dev")))
		p := pod("nic")
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"node2", "node3"}}}}},
		}}}
		return inspect.Question{Pod: p}
	},
	rulings: []inspect.Reason{inspect.RuledNode}, changes: []inspect.Change{inspect.ChangeNodes},
}, {
	name: "first-available", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "all", claim(count("nics", "hca.rdma.dev", 9)))
		b.pending("nic", claim(controlplane.Request{Name: "nic", First: []controlplane.Request{want("vf", "vf.hca.rdma.dev"), want("pf", "hca.rdma.dev")}}))
		return inspect.Question{Pod: pod("nic")}
	},
	findings: []string{"ClassEmpty"}, rulings: []inspect.Reason{inspect.RuledClaim}, changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "two-claims", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		b.node("node2", "roce-sriov", "")
		b.pending("left", claim(count("nics", "hca.rdma.dev", 2)))
		b.pending("right", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: pod("left", "right")}
	},
	findings: []string{"Together"}, changes: []inspect.Change{inspect.ChangeOthers, inspect.ChangeCount},
}, {
	name: "all-devices", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		b.allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		c := b.pending("all", claim(want("nics", "hca.rdma.dev")))
		c.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		c.Spec.Devices.Requests[0].Exactly.Count = 0
		return inspect.Question{Pod: pod("all")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim}, changes: []inspect.Change{inspect.ChangeEnd},
}, {
	name: "never", verdict: inspect.VerdictUnallocated, findings: []string{"NeverFits"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		b.allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		b.pending("nics", claim(count("nics", "hca.rdma.dev", 4)))
		return inspect.Question{Pod: pod("nics")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim}, changes: []inspect.Change{inspect.ChangeCount},
}, {
	name: "class-missing", verdict: inspect.VerdictBroken, findings: []string{"ClassMissing"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("nic", claim(want("nic", "hca.rdma.example")))
		return inspect.Question{Pod: pod("nic")}
	},
}, {
	name: "class-empty", verdict: inspect.VerdictUnallocated, findings: []string{"ClassEmpty"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("nic", claim(want("nic", "vf.hca.rdma.dev")))
		return inspect.Question{Pod: pod("nic")}
	},
}, {
	name: "no-driver", verdict: inspect.VerdictUnallocated, findings: []string{"NoDevices"},
	make: func(b *bed) inspect.Question {
		b.pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: pod("nic")}
	},
}, {
	name: "selector-error", verdict: inspect.VerdictBroken, findings: []string{"SelectorError"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "aws-p5", "")
		b.pending("nic", claim(want("nic", "hca.rdma.dev", rdmaAttr+`.netdev.startsWith("ib")`)))
		return inspect.Question{Pod: pod("nic")}
	},
}, {
	name: "template-missing", verdict: inspect.VerdictBroken, findings: []string{"TemplateMissing"},
	make: func(*bed) inspect.Question {
		return inspect.Question{Pod: ofTemplate("training-nics"), Templates: map[string]bool{"training-nics": false}}
	},
}, {
	name: "claim-missing", verdict: inspect.VerdictBroken, findings: []string{"ClaimMissing"},
	make: func(*bed) inspect.Question { return inspect.Question{Pod: pod("nics")} },
}, {
	name: "not-created", verdict: inspect.VerdictBroken, findings: []string{"ClaimNotCreated"},
	make: func(*bed) inspect.Question { return inspect.Question{Pod: ofTemplate("training-nics")} },
}, {
	name: "admin-refused", verdict: inspect.VerdictBroken, findings: []string{"AdminAccessForbidden"},
	make: func(*bed) inspect.Question {
		return inspect.Question{Pod: ofTemplate("monitor"), Templates: map[string]bool{"monitor": true}, Events: []corev1.Event{{
			Reason:  "FailedResourceClaimCreation",
			Message: "PodResourceClaim devices: failed to create ResourceClaim: resourceclaims is forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
		}}}
	},
}, {
	name: "admin-label-gone", verdict: inspect.VerdictBroken, findings: []string{"AdminAccessForbidden"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("monitor", claim(controlplane.Request{Name: "all", Class: "hca.rdma.dev", Admin: true}))
		return inspect.Question{Pod: pod("monitor"), NamespaceLabels: map[string]string{}}
	},
}, {
	name: "claim-deleted", verdict: inspect.VerdictBroken, findings: []string{"ClaimDeleted"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev"))).DeletionTimestamp = &metav1.Time{}
		return inspect.Question{Pod: pod("nic")}
	},
}, {
	name: "extended-short", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "rules:\n- {name: pf, publish: shared, shares: 4, selectors: [{cel: {expression: '"+rdmaAttr+".function == \"pf\"'}}]}\n")
		b.Classes[2].Spec.ExtendedResourceName = new("rdma/hca")
		return inspect.Question{Pod: wantsResource("rdma/hca", "3")}
	},
	changes: []inspect.Change{inspect.ChangeCount},
}, {
	name: "extended-unknown", verdict: inspect.VerdictBroken, findings: []string{"ExtendedResourceUnknown"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		return inspect.Question{Pod: wantsResource("rdma/hca", "1")}
	},
}, {
	name: "fits", verdict: inspect.VerdictSchedulable,
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: unschedulable(pod("nic"), "0/1 nodes are available: 1 Insufficient memory.")}
	},
}, {
	name: "node-name", verdict: inspect.VerdictBroken, findings: []string{"NotScheduled"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: on(pod("nic"), "node1")}
	},
}, {
	name: "prepare-failed", verdict: inspect.VerdictUnprepared, findings: []string{"PrepareFailed"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: on(pod("nic"), "node1"), Events: []corev1.Event{{
			Reason:  "FailedPrepareDynamicResources",
			Message: `Failed to prepare dynamic resources: NodePrepareResources failed for claim default/nic: request nic: config: unknown field "memlok"`,
		}}}
	},
}, {
	name: "driver-missing", verdict: inspect.VerdictUnprepared, findings: []string{"DriverMissing"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Pods = nil
		return inspect.Question{Pod: on(pod("nic"), "node1")}
	},
}, {
	name: "driver-not-ready", verdict: inspect.VerdictUnprepared, findings: []string{"DriverNotReady", "DeviceNotPublished"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		b.Pods[0].Status.Conditions = nil
		delete(b.nodes, "node1")
		return inspect.Question{Pod: on(pod("nic"), "node1")}
	},
}, {
	name: "impaired", verdict: inspect.VerdictImpaired, findings: []string{"DeviceNotReady", "DeviceTainted"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		c := b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		r := c.Status.Allocation.Devices.Results[0]
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: "DeviceMissing", Message: "the node has no RDMA device in the slot pci-0000-19-00-0 now",
		}}}}
		b.taint("node1", r.Device, "rdma.dev/device-gone", resourceapi.DeviceTaintEffectNoSchedule)
		return inspect.Question{Pod: running(on(pod("nic"), "node1"))}
	},
}, {
	name: "fine", verdict: inspect.VerdictFine,
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		return inspect.Question{Pod: running(on(pod("nic"), "node1"))}
	},
}, {
	name: "no-claims", verdict: inspect.VerdictNoClaims,
	make: func(*bed) inspect.Question { return inspect.Question{Pod: pod()} },
}, {
	name: "ended", verdict: inspect.VerdictDone,
	make: func(*bed) inspect.Question {
		p := pod("nic")
		p.Status.Phase = corev1.PodSucceeded
		return inspect.Question{Pod: p}
	},
}, {
	name: "gated", verdict: inspect.VerdictBroken, findings: []string{"SchedulingGated"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.pending("nic", claim(want("nic", "hca.rdma.dev")))
		p := pod("nic")
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		return inspect.Question{Pod: p}
	},
}, {
	name: "image", verdict: inspect.VerdictUnprepared, findings: []string{"ContainerWaiting"},
	make: func(b *bed) inspect.Question {
		b.node("node1", "hgx-h100", "")
		b.allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		p := on(pod("nic"), "node1")
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}
		return inspect.Question{Pod: p}
	},
}, {
	name: "forbidden", verdict: inspect.VerdictUnallocated,
	make: func(b *bed) inspect.Question {
		b.node("node1", "roce-sriov", "")
		b.allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
		b.pending("nics", claim(count("nics", "hca.rdma.dev", 2)))
		b.Nodes, b.Pods = nil, nil
		b.Unread = []string{`nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`}
		return inspect.Question{Pod: pod("nics")}
	},
	rulings: []inspect.Reason{inspect.RuledClaim},
}}

func ofTemplate(name string) corev1.Pod {
	p := pod()
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	return p
}

func wantsResource(name corev1.ResourceName, amount string) corev1.Pod {
	p := pod()
	list := corev1.ResourceList{name: resource.MustParse(amount)}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}

// TestWhy explains pods, one for each reason: the answer has the reason, and the
// words are those of the golden file.
func TestWhy(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			b := newBed(t)
			q := s.make(b)
			answer := b.why(q)
			if answer.Verdict != s.verdict {
				t.Errorf("verdict %s (%s), want %s", answer.Verdict, answer.Summary, s.verdict)
			}
			s.check(t, answer)
			var text bytes.Buffer
			if err := answer.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			golden.Bytes(t, "why/"+s.name+".txt", text.Bytes())
		})
	}
}

func (s *scenario) check(t *testing.T, answer *inspect.Answer) {
	t.Helper()
	for _, reason := range s.findings {
		if !slices.ContainsFunc(answer.Findings, func(f inspect.Finding) bool { return f.Reason == reason }) {
			t.Errorf("no finding %s in %+v", reason, answer.Findings)
		}
	}
	for _, reason := range s.rulings {
		found := false
		for _, c := range answer.Claims {
			for _, r := range c.Requests {
				found = found || slices.ContainsFunc(r.RuledOut, func(r *inspect.Ruling) bool { return r.Reason == reason })
			}
		}
		if !found {
			t.Errorf("nothing is ruled out for %s", reason)
		}
	}
	for _, change := range s.changes {
		if !slices.ContainsFunc(answer.Remedies, func(r inspect.Remedy) bool { return r.Change == change }) {
			t.Errorf("no remedy %s in %+v", change, answer.Remedies)
		}
	}
}

// TestWhyJSON: what programs read of an answer.
func TestWhyJSON(t *testing.T) {
	for _, s := range scenarios {
		if s.name == "mixed" || s.name == "prepare-failed" {
			b := newBed(t)
			golden.JSON(t, "why/"+s.name, b.why(s.make(b)))
		}
	}
}
