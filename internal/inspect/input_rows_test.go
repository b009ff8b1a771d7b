package inspect

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/dynamic-resource-allocation/structured"
)

// decidesNothing are the fields that no allocation depends on.
var decidesNothing = map[string]string{
	"ResourceSliceSpec.PartitionTypeAttribute":  "for ResourcePoolStatusRequests",
	"Device.BindsToNode":                        "narrows the node selector of the allocation, not the allocation",
	"Device.BindingFailureConditions":           "copied to the allocation, where NotBound reads it",
	"DeviceTaint.TimeAdded":                     "for the eviction of pods",
	"DeviceToleration.TolerationSeconds":        "for the eviction of pods",
	"NodeAllocatableResource.Mapping":           "the fit of node resources, which the answer says is not known",
	"NodeAllocatableResource.Overhead":          "as its parent",
	"NodeAllocatableMapping.CapacityKey":        "as its parent",
	"NodeAllocatableMapping.CapacityMultiplier": "as its parent",
	"NodeAllocatableMapping.DeviceMultiplier":   "as its parent",
	"NodeAllocatableOverhead.PerPod":            "as its parent",
	"NodeAllocatableOverhead.PerContainer":      "as its parent",
	"DeviceClaim.Config":                        "for drivers: checkParameters reads that of rdma.dev",
	"DeviceClaimConfiguration.Requests":         "as its parent",
	"DeviceConfiguration.Opaque":                "as its parent",
	"OpaqueDeviceConfiguration.Driver":          "as its parent",
	"OpaqueDeviceConfiguration.Parameters":      "as its parent",
	"DeviceClassSpec.Config":                    "as DeviceClaim.Config",
	"DeviceAllocationResult.Config":             "a copy for drivers",
	"DeviceAllocationConfiguration.Source":      "as its parent",
	"DeviceAllocationConfiguration.Requests":    "as its parent",
	"ResourceClaimConsumerReference.APIGroup":   "names a user of the claim",
	"ResourceClaimConsumerReference.Resource":   "names a user of the claim",
	"ResourceClaimConsumerReference.Name":       "names a user of the claim",
	"DeviceRequestAllocationResult.Request":     "names the request in the claim",
	"DeviceRequestAllocationResult.Tolerations": "for the eviction of pods: faults reads it",
	"AllocationResult.AllocationTimestamp":      "the bindingTimeout is a setting of the scheduler that nobody can read",
	"AllocatedDeviceStatus.Driver":              "names the device of a condition",
	"AllocatedDeviceStatus.Pool":                "names the device of a condition",
	"AllocatedDeviceStatus.Device":              "names the device of a condition",
	"AllocatedDeviceStatus.ShareID":             "names the device of a condition",
	"AllocatedDeviceStatus.Data":                "for users",
	"AllocatedDeviceStatus.NetworkData":         "for users",
	"NetworkDeviceData.InterfaceName":           "for users",
	"NetworkDeviceData.IPs":                     "for users",
	"NetworkDeviceData.HardwareAddress":         "for users",
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// shared makes the only device of the input one that claims share. It has a capacity of 10, and a claim holds some of it.
// The pod requests some.
func (in *input) shared(policy *resourceapi.CapacityRequestPolicy, held, wanted string) {
	d := in.device(0)
	in.spec().Devices = in.spec().Devices[:1]
	d.AllowMultipleAllocations = new(true)
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"bandwidth": {Value: *quantity("10"), RequestPolicy: policy},
	}
	r := in.holds("a")
	r.ShareID = new(types.UID("share"))
	r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": *quantity(held)}
	in.request().Count = 1
	if wanted != "" {
		in.request().Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": *quantity(wanted)},
		}
	}
}

// inRange is a policy with a range.
func inRange(lowest, highest, step string) *resourceapi.CapacityRequestPolicy {
	p := &resourceapi.CapacityRequestPolicy{Default: quantity(lowest)}
	p.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: quantity(lowest)}
	if highest != "" {
		p.ValidRange.Max = quantity(highest)
	}
	if step != "" {
		p.ValidRange.Step = quantity(step)
	}
	return p
}

// counted gives the pool a set with counters, and has each device consume one.
func (in *input) counted(total string) {
	counters := newSlice("counters")
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{
		Name: "set", Counters: map[string]resourceapi.Counter{"partitions": {Value: *quantity(total)}},
	}}
	for i := range in.spec().Devices {
		in.device(i).ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: "set", Counters: map[string]resourceapi.Counter{"partitions": {Value: *quantity("1")}},
		}}
	}
	in.Slices = append(in.Slices, counters)
	in.sliceCount(2)
}

func (in *input) sliceCount(n int64) {
	for i := range in.Slices {
		in.Slices[i].Spec.Pool.ResourceSliceCount = n
	}
}

// attribute sets an attribute of a device.
func (in *input) attribute(i int, name resourceapi.QualifiedName, a resourceapi.DeviceAttribute) {
	in.device(i).Attributes[name] = a
}

func (in *input) match(name string, requests ...string) {
	attribute := resourceapi.FullyQualifiedName(name)
	in.claim().Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute, Requests: requests}}
}

func inZone(zone string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}
}

// rule taints device b.
func (in *input) rule(effect resourceapi.DeviceTaintEffect) {
	in.Rules = []resourceapi.DeviceTaintRule{{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}}
	in.Rules[0].Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{
		Driver: new(inputDriver), Pool: new("pool"), Device: new("b"),
	}
	in.Rules[0].Spec.Taint = resourceapi.DeviceTaint{Key: "key", Value: "value", Effect: effect}
}

func (in *input) tolerate(t resourceapi.DeviceToleration) {
	in.request().Tolerations = []resourceapi.DeviceToleration{t}
}

var inputRows = func() []inputRow {
	var all []inputRow
	for _, rows := range [][]inputRow{
		taintRows, sliceRows, attributeRows, claimRows, heldRows, capacityRows, counterRows, featureRows, besideRows,
	} {
		all = append(all, rows...)
	}
	return all
}()

var taintRows = []inputRow{{
	name:   "taint of a rule",
	fields: "DeviceTaintRuleSpec.Taint DeviceTaint.Key ExactDeviceRequest.Tolerations DeviceToleration.Key DeviceToleration.Operator",
	no:     func(in *input) { in.rule(resourceapi.DeviceTaintEffectNoSchedule) }, says: "DeviceTaintRule wide",
	yes: func(in *input) {
		in.tolerate(resourceapi.DeviceToleration{Key: "key", Operator: resourceapi.DeviceTolerationOpExists})
	},
}, {
	name: "effect of a rule", fields: "DeviceTaint.Effect",
	no:  func(in *input) { in.rule(resourceapi.DeviceTaintEffectNoExecute) },
	yes: func(in *input) { in.rule(resourceapi.DeviceTaintEffectNone) },
}, {
	name: "rule for another driver", fields: "DeviceTaintRuleSpec.DeviceSelector DeviceTaintSelector.Driver ResourceSliceSpec.Driver",
	no:  func(in *input) { in.rule(resourceapi.DeviceTaintEffectNoSchedule) },
	yes: func(in *input) { in.Rules[0].Spec.DeviceSelector.Driver = new("other.example.com") },
}, {
	name: "rule for another pool", fields: "DeviceTaintSelector.Pool",
	no:  func(in *input) { in.rule(resourceapi.DeviceTaintEffectNoSchedule) },
	yes: func(in *input) { in.Rules[0].Spec.DeviceSelector.Pool = new("other") },
}, {
	name: "rule for another device", fields: "DeviceTaintSelector.Device",
	no:  func(in *input) { in.rule(resourceapi.DeviceTaintEffectNoSchedule) },
	yes: func(in *input) { in.Rules[0].Spec.DeviceSelector.Device = new("c") },
}, {
	name:    "taint of a slice",
	fields:  "Device.Taints DeviceTaint.Value DeviceToleration.Value DeviceToleration.Effect Features.DeviceTaints",
	feature: func(f *structured.Features) *bool { return &f.DeviceTaints },
	no: func(in *input) {
		in.device(1).Taints = []resourceapi.DeviceTaint{{Key: "key", Value: "one", Effect: resourceapi.DeviceTaintEffectNoExecute}}
		in.tolerate(resourceapi.DeviceToleration{Key: "key", Value: "two", Operator: resourceapi.DeviceTolerationOpEqual})
	},
	yes: func(in *input) {
		in.tolerate(resourceapi.DeviceToleration{Key: "key", Value: "one", Operator: resourceapi.DeviceTolerationOpEqual,
			Effect: resourceapi.DeviceTaintEffectNoExecute})
	},
}}

var sliceRows = []inputRow{{
	name: "generation", fields: "ResourceSliceSpec.Pool ResourcePool.Generation",
	no: func(in *input) {
		newer := newSlice("newer")
		newer.Spec.Pool.Generation = 2
		in.Slices = append(in.Slices, newer)
	},
	yes: func(in *input) { in.Slices[1].Spec.Devices = in.spec().Devices },
}, {
	name: "slices of a pool", fields: "ResourcePool.ResourceSliceCount",
	no: func(in *input) { in.sliceCount(2) }, says: "the driver is publishing pool",
	yes: func(in *input) {
		in.Slices = append(in.Slices, newSlice("second"))
		in.sliceCount(2)
	},
}, {
	name: "device published twice", fields: "ResourcePool.Name Device.Name",
	no: func(in *input) {
		in.Slices = append(in.Slices, newSlice("second", newDevice("a", 0)))
		in.sliceCount(2)
	},
	says: "pool pool of driver " + inputDriver + " is invalid",
	yes: func(in *input) {
		in.Slices[1].Spec.Pool.Name = "other"
		in.sliceCount(1)
	},
}, {
	name: "node name", fields: "ResourceSliceSpec.NodeName ResourceSliceSpec.AllNodes",
	no:   func(in *input) { in.spec().NodeName = new("other") },
	says: "node other does not exist",
	yes:  func(in *input) { in.spec().NodeName, in.spec().AllNodes = nil, new(true) },
}, {
	name: "node selector", fields: "ResourceSliceSpec.NodeSelector",
	no:   func(in *input) { in.spec().NodeName, in.spec().NodeSelector = nil, inZone("b") },
	says: "no node where the pod can go is one of those",
	yes:  func(in *input) { in.spec().NodeSelector = inZone("a") },
}, {
	name: "nodes of each device", fields: "ResourceSliceSpec.PerDeviceNodeSelection Device.NodeName Device.AllNodes",
	no: func(in *input) {
		in.spec().NodeName, in.spec().PerDeviceNodeSelection = nil, new(true)
		in.device(0).NodeName, in.device(1).NodeName = new("node"), new("other")
	},
	yes: func(in *input) { in.device(1).NodeName, in.device(1).AllNodes = nil, new(true) },
}, {
	name: "node selector of a device", fields: "Device.NodeSelector",
	no: func(in *input) {
		in.spec().NodeName, in.spec().PerDeviceNodeSelection = nil, new(true)
		in.device(0).NodeName, in.device(1).NodeSelector = new("node"), inZone("b")
	},
	says: "no node where the pod can go is one of those",
	yes:  func(in *input) { in.device(1).NodeSelector = inZone("a") },
}, {
	name: "unknown kind of nodes", no: func(in *input) { in.spec().NodeName = nil },
}, {
	name: "devices", fields: "ResourceSliceSpec.Devices",
	no:  func(in *input) { in.spec().Devices = in.spec().Devices[:1] },
	yes: func(in *input) { in.spec().Devices = append(in.spec().Devices, newDevice("c", 2)) },
}}

var attributeRows = func() []inputRow {
	const with = "device.attributes['" + inputDriver + "']"
	rows := []inputRow{{
		name: "selector of the class", fields: "DeviceClassSpec.Selectors DeviceSelector.CEL CELDeviceSelector.Expression",
		no:  func(in *input) { in.Classes[0].Spec.Selectors = celSelector(with + ".index == 0") },
		yes: func(in *input) { in.Classes[0].Spec.Selectors = celSelector(with + ".index >= 0") },
	}, {
		name: "selector of the request", fields: "ExactDeviceRequest.Selectors Device.Attributes",
		no:  func(in *input) { in.request().Selectors = celSelector(with + ".index == 0") },
		yes: func(in *input) { in.device(1).Attributes = in.device(0).Attributes },
	}, {
		name: "selector of an unknown kind",
		no:   func(in *input) { in.request().Selectors = []resourceapi.DeviceSelector{{}} },
	}}
	for field, want := range map[string]struct {
		expression string
		value      resourceapi.DeviceAttribute
	}{
		"IntValue":     {".x == 7", resourceapi.DeviceAttribute{IntValue: new(int64(7))}},
		"BoolValue":    {".x", resourceapi.DeviceAttribute{BoolValue: new(true)}},
		"StringValue":  {".x == 'x'", resourceapi.DeviceAttribute{StringValue: new("x")}},
		"VersionValue": {".x.isGreaterThan(semver('1.0.0'))", resourceapi.DeviceAttribute{VersionValue: new("1.2.3")}},
	} {
		rows = append(rows, inputRow{
			name: field, fields: "DeviceAttribute." + field,
			no: func(in *input) {
				in.request().Selectors = celSelector("has(" + with + ".x) && " + with + want.expression)
			},
			yes: func(in *input) {
				in.attribute(0, "x", want.value)
				in.attribute(1, "x", want.value)
			},
		})
	}
	for field, lists := range map[string][2]resourceapi.DeviceAttribute{
		"IntValues":     {{IntValues: []int64{1, 2}}, {IntValues: []int64{2, 3}}},
		"BoolValues":    {{BoolValues: []bool{true, false}}, {BoolValues: []bool{true}}},
		"StringValues":  {{StringValues: []string{"a", "b"}}, {StringValues: []string{"b", "c"}}},
		"VersionValues": {{VersionValues: []string{"1.0.0", "2.0.0"}}, {VersionValues: []string{"2.0.0"}}},
	} {
		rows = append(rows, inputRow{
			name: field, fields: "DeviceAttribute." + field + " Features.ListTypeAttributes",
			feature: func(f *structured.Features) *bool { return &f.ListTypeAttributes },
			no: func(in *input) {
				in.match(inputDriver + "/list")
				in.attribute(0, "list", lists[0])
			},
			yes: func(in *input) { in.attribute(1, "list", lists[1]) },
		})
	}
	return rows
}()

var claimRows = []inputRow{{
	name: "class", fields: "ExactDeviceRequest.DeviceClassName",
	no:  func(in *input) { in.request().DeviceClassName = "another" },
	yes: func(in *input) { in.Classes[0].Name = "another" },
}, {
	name: "count", fields: "ResourceClaimSpec.Devices DeviceClaim.Requests ExactDeviceRequest.Count",
	no:  func(in *input) { in.request().Count = 3 },
	yes: func(in *input) { in.spec().Devices = append(in.spec().Devices, newDevice("c", 2)) },
}, {
	name: "all devices", fields: "ExactDeviceRequest.AllocationMode",
	no: func(in *input) {
		in.request().AllocationMode, in.request().Count = resourceapi.DeviceAllocationModeAll, 0
		in.holds("a")
	},
	yes: func(in *input) { in.Claims = in.Claims[:1] },
}, {
	name: "all devices of a pool with missing slices",
	no: func(in *input) {
		in.request().AllocationMode, in.request().Count = resourceapi.DeviceAllocationModeAll, 0
		other := newSlice("other", newDevice("c", 2))
		other.Spec.Pool = resourceapi.ResourcePool{Name: "other", Generation: 1, ResourceSliceCount: 2}
		in.Slices = append(in.Slices, other)
	},
	says: "is currently being updated",
	yes:  func(in *input) { in.Slices[1].Spec.Pool.ResourceSliceCount = 1 },
}, {
	name: "request of an unknown kind", fields: "DeviceRequest.Exactly", beside: true, says: "does not understand a claim",
	no: func(in *input) { in.claim().Requests[0].Exactly = nil },
}, {
	name: "alternatives", fields: "DeviceRequest.FirstAvailable DeviceSubRequest.Name Features.PrioritizedList",
	feature: func(f *structured.Features) *bool { return &f.PrioritizedList },
	no: func(in *input) {
		in.request().Count = 3
		in.alternative()
	},
	yes: func(in *input) {
		second := in.claim().Requests[0].FirstAvailable[0]
		second.Name, second.Count = "second", 2
		in.claim().Requests[0].FirstAvailable = append(in.claim().Requests[0].FirstAvailable, second)
	},
}, {
	name: "matchAttribute", fields: "DeviceClaim.Constraints DeviceConstraint.MatchAttribute",
	no:  func(in *input) { in.match(inputDriver + "/index") },
	yes: func(in *input) { in.match(inputDriver + "/group") },
}, {
	name: "requests of a constraint", fields: "DeviceConstraint.Requests DeviceRequest.Name",
	no: func(in *input) {
		in.claim().Requests = []resourceapi.DeviceRequest{newRequest("r", 1), newRequest("s", 1)}
		in.match(inputDriver+"/index", "r", "s")
	},
	yes: func(in *input) { in.match(inputDriver+"/index", "r") },
}, {
	name: "distinctAttribute", fields: "DeviceConstraint.DistinctAttribute",
	no: func(in *input) {
		name := resourceapi.FullyQualifiedName(inputDriver + "/group")
		in.claim().Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: &name}}
	},
	yes: func(in *input) { in.attribute(1, "group", resourceapi.DeviceAttribute{StringValue: new("other")}) },
}, {
	name: "administrator", fields: "ExactDeviceRequest.AdminAccess Features.AdminAccess",
	feature: func(f *structured.Features) *bool { return &f.AdminAccess },
	no:      func(in *input) { in.holds("a") },
	yes:     func(in *input) { in.request().AdminAccess = new(true) },
}}

var heldRows = []inputRow{{
	name: "device of another claim",
	fields: "ResourceClaimStatus.Allocation AllocationResult.Devices DeviceAllocationResult.Results AllocatedState.AllocatedDevices " +
		"DeviceRequestAllocationResult.Device",
	no: func(in *input) { in.holds("a") }, says: "claims: default/other",
	yes: func(in *input) { in.Claims[1].Status.Allocation.Devices.Results[0].Device = "c" },
}, {
	name: "device of another pool", fields: "DeviceRequestAllocationResult.Pool",
	no:  func(in *input) { in.holds("a") },
	yes: func(in *input) { in.Claims[1].Status.Allocation.Devices.Results[0].Pool = "other" },
}, {
	name: "device of another driver", fields: "DeviceRequestAllocationResult.Driver",
	no:  func(in *input) { in.holds("a") },
	yes: func(in *input) { in.Claims[1].Status.Allocation.Devices.Results[0].Driver = "other.example.com" },
}, {
	name: "access of an administrator", fields: "DeviceRequestAllocationResult.AdminAccess",
	no:  func(in *input) { in.holds("a") },
	yes: func(in *input) { in.Claims[1].Status.Allocation.Devices.Results[0].AdminAccess = new(true) },
}, {
	name: "share", fields: "DeviceRequestAllocationResult.ShareID AllocatedState.AllocatedSharedDeviceIDs Device.AllowMultipleAllocations",
	no: func(in *input) {
		in.shared(nil, "0", "")
		in.Claims[1].Status.Allocation.Devices.Results[0].ShareID = nil
	},
	yes: func(in *input) { in.Claims[1].Status.Allocation.Devices.Results[0].ShareID = new(types.UID("share")) },
}, {
	name:    "capacity of shares",
	fields:  "DeviceRequestAllocationResult.ConsumedCapacity AllocatedState.AggregatedCapacity Features.ConsumableCapacity",
	feature: func(f *structured.Features) *bool { return &f.ConsumableCapacity },
	no:      func(in *input) { in.shared(nil, "8", "5") },
	yes:     func(in *input) { in.Claims = in.Claims[:1]; in.holds("c") },
}}

var capacityRows = []inputRow{{
	name:   "capacity",
	fields: "Device.Capacity DeviceCapacity.Value ExactDeviceRequest.Capacity CapacityRequirements.Requests",
	no: func(in *input) {
		for i := range in.spec().Devices {
			in.device(i).Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *quantity("5")}}
		}
		in.request().Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": *quantity("6")},
		}
	},
	yes: func(in *input) { in.request().Capacity.Requests["memory"] = *quantity("5") },
}, {
	name: "default", fields: "DeviceCapacity.RequestPolicy CapacityRequestPolicy.Default",
	no:  func(in *input) { in.shared(&resourceapi.CapacityRequestPolicy{Default: quantity("8")}, "5", "") },
	yes: func(in *input) { in.device(0).Capacity["bandwidth"].RequestPolicy.Default.Set(5) },
}, {
	name: "valid values", fields: "CapacityRequestPolicy.ValidValues",
	no: func(in *input) {
		in.shared(&resourceapi.CapacityRequestPolicy{Default: quantity("1"),
			ValidValues: []resource.Quantity{*quantity("1"), *quantity("4")}}, "7", "2")
	},
	yes: func(in *input) {
		p := in.device(0).Capacity["bandwidth"].RequestPolicy
		p.ValidValues = []resource.Quantity{*quantity("1"), *quantity("2"), *quantity("4")}
	},
}, {
	name: "least capacity", fields: "CapacityRequestPolicy.ValidRange CapacityRequestPolicyRange.Min",
	no:  func(in *input) { in.shared(inRange("4", "", ""), "7", "1") },
	yes: func(in *input) { *in.device(0).Capacity["bandwidth"].RequestPolicy = *inRange("1", "", "") },
}, {
	name: "most capacity", fields: "CapacityRequestPolicyRange.Max",
	no:  func(in *input) { in.shared(inRange("1", "4", ""), "1", "5") },
	yes: func(in *input) { *in.device(0).Capacity["bandwidth"].RequestPolicy = *inRange("1", "5", "") },
}, {
	name: "step of capacity", fields: "CapacityRequestPolicyRange.Step",
	no:  func(in *input) { in.shared(inRange("1", "", "3"), "7", "2") },
	yes: func(in *input) { *in.device(0).Capacity["bandwidth"].RequestPolicy = *inRange("1", "", "1") },
}, {
	name: "fraction of capacity", fields: "Features.FractionalCapacityRange",
	feature: func(f *structured.Features) *bool { return &f.FractionalCapacityRange },
	no:      func(in *input) { in.shared(inRange("500m", "", "500m"), "8500m", "1600m") },
	yes:     func(in *input) { in.request().Capacity.Requests["bandwidth"] = *quantity("1200m") },
}}

var counterRows = []inputRow{{
	name: "counters",
	fields: "ResourceSliceSpec.SharedCounters CounterSet.Counters Counter.Value Device.ConsumesCounters " +
		"DeviceCounterConsumption.Counters Features.PartitionableDevices",
	feature: func(f *structured.Features) *bool { return &f.PartitionableDevices },
	no:      func(in *input) { in.counted("1") },
	yes: func(in *input) {
		in.Slices[1].Spec.SharedCounters[0].Counters["partitions"] = resourceapi.Counter{Value: *quantity("2")}
	},
}, {
	name: "counter that is missing", fields: "CounterSet.Name DeviceCounterConsumption.CounterSet",
	no: func(in *input) {
		in.counted("2")
		in.device(1).ConsumesCounters[0].CounterSet = "another"
	},
	says: "is invalid",
	yes:  func(in *input) { in.device(1).ConsumesCounters[0].CounterSet = "set" },
}, {
	name: "compatibility groups", fields: "DeviceCounterConsumption.CompatibilityGroups Features.CompatibilityGroups",
	feature: func(f *structured.Features) *bool { return &f.CompatibilityGroups },
	no: func(in *input) {
		in.counted("2")
		in.device(0).ConsumesCounters[0].CompatibilityGroups = []string{"one"}
		in.device(1).ConsumesCounters[0].CompatibilityGroups = []string{"two"}
	},
	yes: func(in *input) { in.device(1).ConsumesCounters[0].CompatibilityGroups = []string{"one"} },
}}

var featureRows = []inputRow{{
	name:    "derived attributes",
	fields:  "ExactDeviceRequest.DerivedAttributes DeviceDerivedAttribute.Name DeviceDerivedAttribute.Expression Features.DerivedAttributes",
	feature: func(f *structured.Features) *bool { return &f.DerivedAttributes },
	no: func(in *input) {
		in.match("example.com/half")
		in.request().DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
			Name: "example.com/half", Expression: "device.attributes['" + inputDriver + "'].index",
		}}
	},
	yes: func(in *input) { in.request().DerivedAttributes[0].Expression += " / 2" },
}, {
	name:    "operations that a node leaves out",
	fields:  "ResourceSliceSpec.SkipNodeOperations Features.OptionalNodeOperations",
	feature: func(f *structured.Features) *bool { return &f.OptionalNodeOperations },
	no: func(in *input) {
		in.spec().SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	},
	says: "DRAOptionalNodeOperations",
	yes: func(in *input) {
		in.Nodes[0].Status.DeclaredFeatures = []string{draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate}
	},
}, {
	name: "binding conditions", fields: "Device.BindingConditions Features.DeviceBindingAndStatus",
	feature: func(f *structured.Features) *bool { return &f.DeviceBindingAndStatus },
	no: func(in *input) {
		for i := range in.spec().Devices {
			in.device(i).BindingConditions, in.device(i).BindingFailureConditions = []string{"Attached"}, []string{"Failed"}
		}
		in.request().Count = 3
	},
	yes: func(in *input) { in.request().Count = 2 },
}}

// ours allocates the pod's own claim.
func (in *input) ours() *resourceapi.DeviceRequestAllocationResult {
	r := in.holds("a")
	in.Claims[0].Status = in.Claims[1].Status
	in.Claims = in.Claims[:1]
	return r
}

// condition sets a condition of the pod's own device.
func (in *input) condition(name string) {
	in.Claims[0].Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: inputDriver, Pool: "pool", Device: "a",
		Conditions: []metav1.Condition{{Type: name, Status: metav1.ConditionTrue, Reason: "Test"}},
	}}
}

// onlyExtended has the pod request an extended resource in place of its claim.
func (in *input) onlyExtended(init, main string) {
	in.pod.Spec.ResourceClaims, in.Claims = nil, nil
	in.Classes[0].Spec.ExtendedResourceName = new("example.com/nic")
	in.pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	in.pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	in.pod.Spec.InitContainers[0].Resources.Requests = corev1.ResourceList{"example.com/nic": *quantity(init)}
	in.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/nic": *quantity(main)}
}

// besideRows are what other plugins of the scheduler, and DynamicResources before and behind the allocator, look at.
var besideRows = []inputRow{{
	name: "cordoned node", beside: true, says: "cordoned",
	no: func(in *input) { in.Nodes[0].Spec.Unschedulable = true },
	yes: func(in *input) {
		in.pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	},
}, {
	name: "taint of the node", beside: true, says: "the node's taint load=7:NoSchedule",
	no: func(in *input) {
		in.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "load", Value: "7", Effect: corev1.TaintEffectNoSchedule}}
	},
	yes: func(in *input) {
		in.pod.Spec.Tolerations = []corev1.Toleration{{Key: "load", Operator: corev1.TolerationOpLt, Value: "8"}}
	},
}, {
	name: "node selector of the pod", beside: true, says: "node selector or affinity",
	no:  func(in *input) { in.pod.Spec.NodeSelector = map[string]string{"zone": "b"} },
	yes: func(in *input) { in.Nodes[0].Labels["zone"] = "b" },
}, {
	name: "nodes of the pod's other claim", beside: true, fields: "AllocationResult.NodeSelector", says: "are on another node",
	no: func(in *input) {
		in.holds("c")
		in.Claims[1].Status.Allocation.NodeSelector = inZone("b")
		in.pod.Spec.ResourceClaims = append(in.pod.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: "other", ResourceClaimName: new("other")})
	},
	yes: func(in *input) { in.Claims[1].Status.Allocation.NodeSelector = inZone("a") },
}, {
	name: "operations of an allocated claim", beside: true, fields: "DeviceRequestAllocationResult.SkipNodeOperations", says: lacksOptional,
	no: func(in *input) {
		in.holds("c").SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		in.pod.Spec.ResourceClaims = append(in.pod.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: "other", ResourceClaimName: new("other")})
	},
	yes: func(in *input) {
		in.Nodes[0].Status.DeclaredFeatures = []string{draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate}
	},
}, {
	name: "pods of a claim", beside: true, says: "used by 256 pods",
	fields: "ResourceClaimStatus.ReservedFor ResourceClaimConsumerReference.UID",
	no: func(in *input) {
		in.ours()
		for i := range resourceapi.ResourceClaimReservedForMaxSize {
			in.Claims[0].Status.ReservedFor = append(in.Claims[0].Status.ReservedFor,
				resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(fmt.Sprint(i))})
		}
	},
	yes: func(in *input) { in.Claims[0].Status.ReservedFor[0].UID = in.pod.UID },
}, {
	name: "claim that is being deleted", beside: true, says: "is being deleted",
	no:  func(in *input) { in.Claims[0].DeletionTimestamp = &metav1.Time{} },
	yes: func(in *input) { in.Claims[0].DeletionTimestamp = nil },
}, {
	name: "extended resource", beside: true, fields: "DeviceClassSpec.ExtendedResourceName", says: "which no node offers",
	no: func(in *input) {
		in.onlyExtended("0", "2")
		in.Classes[0].Spec.ExtendedResourceName = nil
	},
	yes: func(in *input) { in.Classes[0].Spec.ExtendedResourceName = new("example.com/nic") },
}, {
	name: "extended resource of an init container", beside: true, says: "container-0-request-0 wants 2 of class",
	no:  func(in *input) { in.onlyExtended("3", "1") },
	yes: func(in *input) { in.onlyExtended("2", "1") },
}, {
	name: "extended resource of a device plugin", beside: true, says: "a device plugin of the node offers example.com/nic",
	no: func(in *input) {
		in.onlyExtended("0", "2")
		in.Nodes[0].Status.Allocatable = corev1.ResourceList{"example.com/nic": *quantity("1")}
		in.Nodes = append(in.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "without"}})
	},
	yes: func(in *input) { in.Nodes[0].Status.Allocatable["example.com/nic"] = *quantity("0") },
}, {
	name: "binding conditions of an allocated claim", beside: true, noted: true, says: "waits until driver " + inputDriver + " sets Attached",
	fields: "DeviceRequestAllocationResult.BindingConditions ResourceClaimStatus.Devices AllocatedDeviceStatus.Conditions",
	no:     func(in *input) { in.ours().BindingConditions = []string{"Attached"} },
	yes:    func(in *input) { in.condition("Attached") },
}, {
	name: "failure of an allocated device", beside: true, noted: true, says: "could not make device pool/a of claim claim ready: Failed",
	fields: "DeviceRequestAllocationResult.BindingFailureConditions",
	no: func(in *input) {
		r := in.ours()
		r.BindingConditions, r.BindingFailureConditions = []string{"Attached"}, []string{"Failed"}
		in.condition("Failed")
	},
	yes: func(in *input) { in.condition("Attached") },
}, {
	name: "resources of the node", beside: true, noted: true, says: "take CPU, memory or the like from their node: whether it has enough",
	fields: "Device.NodeAllocatableResources",
	no: func(in *input) {
		in.device(0).NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {}}
	},
	yes: func(in *input) { in.device(0).NodeAllocatableResources = nil },
}}
