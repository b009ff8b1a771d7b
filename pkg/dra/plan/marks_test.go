package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// ruled is a node whose rules mark the packets of two HCAs.
func ruled(first, second int) plan.Facts {
	node := here
	node.Groups = groups
	node.Marks = map[string]v1alpha1.Marks{
		"pci-0000-3b-00-0": {TrafficClass: &first}, "pci-0000-3b-00-1": {TrafficClass: &second},
	}
	return node
}

// TestMarksOfRules: class and claim replace the marks of a rule. Devices of a claim must agree where a
// library is told of both.
func TestMarksOfRules(t *testing.T) {
	both := results{result("a", "pci-0000-3b-00-0"), result("b", "pci-0000-3b-00-1")}
	group := one(share(result("nics", "group-all"), "s1"))
	allow := fromClass(`"allow": {"trafficClasses": [8]}`)
	for name, tc := range map[string]struct {
		node    plan.Facts
		results results
		configs configs
		want    string // the first device's traffic class, or a part of the error
	}{
		"a rule":                {ruled(106, 104), both[:1], configs{fromClaim(`"env": ["ucx"]`)}, "106"},
		"a rule and no library": {ruled(106, 104), both, nil, "null"},
		"a class over a rule": {ruled(106, 104), both[:1],
			configs{fromClass(`"allow": {"trafficClasses": [8]}, "defaults": {"env": ["nccl"], "trafficClass": 8}`)}, "8"},
		"a claim over rules": {ruled(106, 104), both, configs{allow, fromClaim(`"env": ["nccl"], "trafficClass": 8`)}, "8"},
		"rules that agree":   {ruled(106, 106), both, configs{fromClaim(`"env": ["nccl"]`)}, "106"},
		"rules that differ": {ruled(106, 104), both, configs{fromClaim(`"env": ["nccl"]`)},
			"claim team-a/nics: devices pci-0000-3b-00-0 and pci-0000-3b-00-1: " +
				"trafficClass is 106 and 104, and nccl takes one value"},
		"rules that differ, told of one": {ruled(106, 104), both, configs{fromClaim(`"env": ["nccl"]`, "a")}, "106"},
		"rules that differ, told to UCX and to vLLM's UCX": {ruled(106, 104), both,
			configs{fromClaim(`"env": ["ucx"]`, "a"), fromClaim(`"env": ["vllm"]`, "b")},
			"trafficClass is 106 and 104, and ucx"},
		"vLLM": {ruled(106, 104), both[:1], configs{allow, fromClaim(`"env": ["vllm"], "trafficClass": 8`)}, "8"},
		"requests that differ": {here, both, configs{allow, fromClaim(`"env": ["ucx"]`), fromClaim(`"trafficClass": 8`, "b")},
			"trafficClass is not set and 8, and ucx takes one value"},
		"a group": {ruled(106, 106), group, configs{fromClaim(`"env": ["nvshmem"]`)}, "106"},
		"a group of several rules": {ruled(106, 104), group, configs{fromClaim(`"env": ["nvshmem"]`)},
			"request nics: the rules of the group's HCAs in the driver's policy differ: trafficClass is 106 and 104"},
		"a group of several rules, and a claim": {ruled(106, 104), group, configs{allow,
			fromClaim(`"env": ["nvshmem"], "trafficClass": 8`)}, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := plan.New(claim(tc.results, tc.configs...), tc.node)
			if err != nil {
				test.StrContains(t, err.Error(), tc.want, test.Sprintf("error %v", err))
				return
			}
			got, err := json.Marshal(p.Devices[0].Settings.TrafficClass)
			test.True(t, err == nil && string(got) == tc.want,
				test.Sprintf("traffic class %s, %v; want %s", got, err, tc.want))
		})
	}
}

// TestMarksAreKept: a rule that changes does not change what a claim was given.
func TestMarksAreKept(t *testing.T) {
	c := claim(one(result("a", "pci-0000-3b-00-0")), fromClaim(`"env": ["nccl"]`))
	first, err := plan.New(c, ruled(106, 0))
	must.NoError(t, err)
	raw, err := json.Marshal(first)
	must.NoError(t, err)
	var recorded plan.Plan
	must.NoError(t, json.Unmarshal(raw, &recorded))
	again, err := plan.New(c, ruled(104, 0).WithPrepared(&recorded))
	test.True(t, err == nil && *again.Devices[0].Settings.TrafficClass == 106,
		test.Sprintf("prepared again: %+v, %v; want 106", again, err))
}
