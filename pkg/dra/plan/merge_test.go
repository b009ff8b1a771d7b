package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

type configs = []resourceapi.DeviceAllocationConfiguration

var (
	verbsCM    = []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM}
	onlyVerbs  = []rdma.NodeClass{rdma.ClassVerbs}
	verbsMAD   = []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassMAD}
	onlyMAD    = []rdma.NodeClass{rdma.ClassMAD}
	everyClass = []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM, rdma.ClassMAD, rdma.ClassSM}
)

// TestMerge has a case for each rule of "Who wins" in docs/claims.md. The names are "field: who says what".
func TestMerge(t *testing.T) {
	for _, tc := range []struct {
		name    string
		driver  v1alpha1.Memlock // the driver's flag --memlock; unlimited if not set
		configs configs
		want    plan.Settings
	}{
		// memlock
		{"memlock: nobody", "", nil, settings("unlimited")},
		{"memlock: driver", "1Gi", nil, settings("1Gi")},
		{"memlock: driver inherits", "inherit", nil, settings("inherit")},
		{"memlock: class default", "1Gi", configs{fromClass(`"defaults": {"memlock": "2Gi"}`)}, settings("2Gi")},
		{"memlock: class default above the driver's", "1Gi", configs{fromClass(`"defaults": {"memlock": "unlimited"}`)}, settings("unlimited")},
		{"memlock: claim", "1Gi", configs{fromClaim(`"memlock": "3Gi"`)}, settings("3Gi")},
		{"memlock: claim over class default", "1Gi", configs{fromClass(`"defaults": {"memlock": "2Gi"}`), fromClaim(`"memlock": "3Gi"`)}, settings("3Gi")},
		{"memlock: claim inherits", "1Gi", configs{fromClass(`"defaults": {"memlock": "2Gi"}`), fromClaim(`"memlock": "inherit"`)}, settings("inherit")},
		{"memlock: class maximum, nobody else", "", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`)}, settings("4Gi")},
		{"memlock: class maximum above the driver's", "1Gi", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`)}, settings("1Gi")},
		{"memlock: class maximum below the driver's", "8Gi", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`)}, settings("4Gi")},
		{"memlock: class maximum, driver inherits", "inherit", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`)}, settings("inherit")},
		{"memlock: class maximum unlimited", "", configs{fromClass(`"allow": {"memlockMax": "unlimited"}`)}, settings("unlimited")},
		{"memlock: class maximum and default", "", configs{fromClass(`"allow": {"memlockMax": "4Gi"}, "defaults": {"memlock": "2Gi"}`)}, settings("2Gi")},
		{"memlock: claim at the class maximum", "", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "4096Mi"`)}, settings("4096Mi")},
		{"memlock: claim inherits below a maximum", "", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "inherit"`)}, settings("inherit")},
		{"memlock: later class default wins", "", configs{fromClass(`"defaults": {"memlock": "2Gi"}`), fromClass(`"defaults": {"memlock": "3Gi"}`)}, settings("3Gi")},
		{"memlock: later class maximum wins", "", configs{fromClass(`"allow": {"memlockMax": "2Gi"}`), fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "3Gi"`)}, settings("3Gi")},
		{"memlock: later claim config wins", "", configs{fromClaim(`"memlock": "2Gi"`), fromClaim(`"memlock": "3Gi"`)}, settings("3Gi")},
		{"memlock: later claim config without the field", "", configs{fromClaim(`"memlock": "2Gi"`), fromClaim(`"env": ["ucx"]`)}, withEnv(settings("2Gi"), "ucx")},
		{"memlock: a number of bytes", "", configs{fromClaim(`"memlock": 65536`)}, settings("65536")},

		// onUnusable
		{"onUnusable: class default", "", configs{fromClass(`"defaults": {"onUnusable": "fail"}`)}, withOnUnusable("fail")},
		{"onUnusable: claim stricter than the class", "", configs{fromClass(`"defaults": {"onUnusable": "ignore"}`), fromClaim(`"onUnusable": "warn"`)}, withOnUnusable("warn")},
		{"onUnusable: claim laxer than the class", "", configs{fromClass(`"defaults": {"onUnusable": "fail"}`), fromClaim(`"onUnusable": "ignore"`)}, withOnUnusable("fail")},
		{"onUnusable: claim, class says nothing", "", configs{fromClass(`"defaults": {}`), fromClaim(`"onUnusable": "ignore"`)}, withOnUnusable("ignore")},

		// nodes
		{"nodes: class default", "", configs{fromClass(`"defaults": {"nodes": ["verbs"]}`)}, withNodes(onlyVerbs)},
		{"nodes: class default, privileged", "", configs{fromClass(`"allow": {"nodes": ["verbs", "mad"]}, "defaults": {"nodes": ["verbs", "mad"]}`)}, withNodes(verbsMAD)},
		{"nodes: claim within the driver's default", "", configs{fromClaim(`"nodes": ["verbs"]`)}, withNodes(onlyVerbs)},
		{"nodes: claim over class default", "", configs{fromClass(`"defaults": {"nodes": ["verbs"]}`), fromClaim(`"nodes": ["verbs", "cm"]`)}, withNodes(verbsCM)},
		{"nodes: claim asks for what the class allows", "", configs{fromClass(`"allow": {"nodes": ["verbs", "cm", "mad", "sm"]}`), fromClaim(`"nodes": ["verbs", "cm", "mad", "sm"]`)}, withNodes(everyClass)},
		{"nodes: claim may leave out verbs", "", configs{fromClass(`"allow": {"nodes": ["mad"]}`), fromClaim(`"nodes": ["mad"]`)}, withNodes(onlyMAD)},
		{"nodes: allowed is not given", "", configs{fromClass(`"allow": {"nodes": ["verbs", "mad"]}`)}, withNodes(verbsCM)},
		{"nodes: later class allow wins", "", configs{fromClass(`"allow": {"nodes": ["verbs"]}`), fromClass(`"allow": {"nodes": ["verbs", "mad"]}`), fromClaim(`"nodes": ["verbs", "mad"]`)}, withNodes(verbsMAD)},
		{"nodes: later claim config wins", "", configs{fromClaim(`"nodes": ["verbs"]`), fromClaim(`"nodes": ["verbs", "cm"]`)}, withNodes(verbsCM)},

		// env
		{"env: nobody", "", nil, settings("unlimited")},
		{"env: class default", "", configs{fromClass(`"defaults": {"env": ["nccl"]}`)}, withEnv(settings("unlimited"), "nccl")},
		{"env: claim", "", configs{fromClaim(`"env": ["nccl", "ucx"]`)}, withEnv(settings("unlimited"), "nccl", "ucx")},
		{"env: claim over class default", "", configs{fromClass(`"defaults": {"env": ["nccl"]}`), fromClaim(`"env": ["ucx"]`)}, withEnv(settings("unlimited"), "ucx")},
		{"env: claim asks for none", "", configs{fromClass(`"defaults": {"env": ["nccl"]}`), fromClaim(`"env": []`)}, withEnv(settings("unlimited"))},
		{"env: claim within allow", "", configs{fromClass(`"allow": {"env": ["ucx"]}`), fromClaim(`"env": ["ucx"]`)}, withEnv(settings("unlimited"), "ucx")},
		{"env: claim beyond allow of an earlier class", "", configs{fromClass(`"allow": {"env": []}`), fromClass(`"allow": {"env": ["nccl-topology"]}`), fromClaim(`"env": ["nccl-topology"]`)}, withEnv(settings("unlimited"), "nccl-topology")},
		{"env: later claim config wins", "", configs{fromClaim(`"env": ["nccl"]`), fromClaim(`"env": ["ucx"]`)}, withEnv(settings("unlimited"), "ucx")},

		// marks
		{
			"marks: class default",
			"",
			configs{fromClass(`"allow": {"trafficClasses": [106]}, "defaults": {"trafficClass": 106, "env": ["ucx"]}`)},
			withMarks(106, nil, "ucx")},
		{
			"marks: class default, and no library",
			"",
			configs{fromClass(`"allow": {"trafficClasses": [106]}, "defaults": {"trafficClass": 106}`)},
			settings("unlimited"),
		},
		{
			"marks: claim within allow",
			"",
			configs{
				fromClass(`"allow": {"trafficClasses": [0, 106], "serviceLevels": [3]}, "defaults": {"trafficClass": 106}`),
				fromClaim(`"env": ["nccl"], "trafficClass": 0, "serviceLevel": 3`),
			},
			withMarks(0, 3, "nccl"),
		},
		{
			"marks: allowed is not given",
			"",
			configs{fromClass(`"allow": {"trafficClasses": [106]}`), fromClaim(`"env": ["nccl"]`)},
			withMarks(nil, nil, "nccl"),
		},

		// who is asked
		{"a configuration of another driver", "", configs{otherDriver(), fromClaim(`"memlock": "1Gi"`)}, settings("1Gi")},
		{"a configuration of another request", "", configs{fromClaim(`"memlock": "1Gi"`, "other")}, settings("unlimited")},
		{"a configuration that is not opaque", "", configs{{Source: resourceapi.AllocationConfigSourceClaim}}, settings("unlimited")},
		{"a configuration that sets nothing", "", configs{fromClass(""), fromClaim("")}, settings("unlimited")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			site := here
			if tc.driver != "" {
				site.Site.Memlock = tc.driver
			}
			p, err := plan.New(claim(one(result("nic", "pci-0000-3b-00-0")), tc.configs...), site)
			must.NoError(t, err)
			test.Eq(t, tc.want, p.Devices[0].Settings, test.Cmp(cmp.Transformer("env", emptyIsNil)),
				test.Sprint("settings"))
		})
	}
}

func emptyIsNil(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func settings(memlock v1alpha1.Memlock) plan.Settings {
	return plan.Settings{Memlock: memlock, Nodes: verbsCM}
}

func withNodes(nodes []rdma.NodeClass) plan.Settings {
	s := settings("unlimited")
	s.Nodes = nodes
	return s
}

func withEnv(s plan.Settings, env ...string) plan.Settings {
	s.Env = env
	return s
}

func withOnUnusable(word string) plan.Settings {
	s := settings("unlimited")
	s.OnUnusable = word
	return s
}

func withMarks(trafficClass, serviceLevel any, env ...string) plan.Settings {
	s := withEnv(settings("unlimited"), env...)
	if n, ok := trafficClass.(int); ok {
		s.TrafficClass = &n
	}
	if n, ok := serviceLevel.(int); ok {
		s.ServiceLevel = &n
	}
	return s
}

func otherDriver() resourceapi.DeviceAllocationConfiguration {
	c := fromClaim(`"unknown": true`)
	c.Opaque.Driver = "gpu.example.com"
	return c
}

// TestMergeRefuses has what a claim must not ask for. An error names claim,
// request and field, and says what to do.
func TestMergeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		configs configs
		want    []string
	}{
		{"mad in a user's claim", configs{fromClaim(`"nodes": ["verbs", "mad"]`)}, []string{"the claim's parameters: nodes[1]: Forbidden: mad nodes are not allowed by the DeviceClass", "allow.nodes"}},
		{"sm in a user's claim", configs{fromClaim(`"nodes": ["verbs", "sm"]`)}, []string{"nodes[1]: Forbidden: sm nodes"}},
		{"psm in a user's claim", configs{fromClaim(`"nodes": ["verbs", "psm"]`)}, []string{"nodes[1]: Forbidden: psm nodes"}},
		{"umad under its device name", configs{fromClaim(`"nodes": ["verbs", "umad"]`)}, []string{"nodes[1]: Unsupported value: \"umad\"", `"mad"`}},
		{"cm where the class allows verbs only", configs{fromClass(`"allow": {"nodes": ["verbs"]}, "defaults": {"nodes": ["verbs"]}`), fromClaim(`"nodes": ["verbs", "cm"]`)}, []string{"nodes[1]: Forbidden: cm nodes"}},
		{"anything where the class allows none", configs{fromClass(`"allow": {"nodes": []}`), fromClaim(`"nodes": ["verbs"]`)}, []string{"nodes[0]: Forbidden"}},
		{"mad, and a later class takes it back", configs{fromClass(`"allow": {"nodes": ["verbs", "mad"]}`), fromClass(`"allow": {"nodes": ["verbs"]}`), fromClaim(`"nodes": ["mad"]`)}, []string{"nodes[0]: Forbidden"}},
		{"more memlock than allowed", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "4097Mi"`)}, []string{"memlock: Forbidden: 4097Mi is more than the DeviceClass allows", "allow.memlockMax 4Gi"}},
		{"unlimited memlock above a maximum", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "unlimited"`)}, []string{"memlock: Forbidden: unlimited is more"}},
		{"a topology where the class forbids it", configs{fromClass(`"allow": {"env": ["nccl", "ucx"]}`), fromClaim(`"env": ["nccl", "nccl-topology"]`)}, []string{"env[1]: Forbidden: nccl-topology is not allowed by the DeviceClass", "allow.env"}},
		{
			"a traffic class that no class allows",
			configs{fromClaim(`"env": ["nccl"], "trafficClass": 106`)},
			[]string{"trafficClass: Forbidden: 106 is not allowed by the DeviceClass", "allow.trafficClasses"},
		},
		{
			"a traffic class beside the allowed one",
			configs{
				fromClass(`"allow": {"trafficClasses": [106]}`),
				fromClaim(`"env": ["nccl"], "trafficClass": 104`),
			},
			[]string{"trafficClass: Forbidden: 104"},
		},
		{
			"a service level that a later class takes back",
			configs{
				fromClass(`"allow": {"serviceLevels": [3]}`),
				fromClass(`"allow": {"serviceLevels": []}`),
				fromClaim(`"env": ["ucx"], "serviceLevel": 3`),
			},
			[]string{"serviceLevel: Forbidden: 3", "allow.serviceLevels"},
		},
		{
			"a traffic class that no library gets",
			configs{
				fromClass(`"allow": {"trafficClasses": [106]}`),
				fromClaim(`"env": ["libfabric"], "trafficClass": 106`),
			},
			[]string{"no library gets them: add nccl, nvshmem, ucx or vllm to env"},
		},
		{"several at once", configs{fromClass(`"allow": {"memlockMax": "4Gi"}`), fromClaim(`"memlock": "unlimited", "nodes": ["sm"]`)}, []string{"memlock: Forbidden", "nodes[0]: Forbidden"}},
		{"no nodes at all", configs{fromClaim(`"nodes": []`)}, []string{"nodes: Required value", "name verbs"}},
		{"no nodes by the class", configs{fromClass(`"defaults": {"nodes": []}`)}, []string{"nodes: Required value"}},
		{
			"class kind in a claim",
			configs{config(resourceapi.AllocationConfigSourceClaim, "HCAClassConfig", `"allow": {"nodes": ["mad"]}`, nil)},
			[]string{"kind HCAClassConfig does not belong in a claim", "use kind HCAConfig"},
		},
		{
			"claim kind in a class",
			configs{config(resourceapi.AllocationConfigSourceClass, "HCAConfig", `"memlock": "1Gi"`, nil)},
			[]string{"kind HCAConfig does not belong in a DeviceClass", "use kind HCAClassConfig and its field defaults"},
		},
		{"unknown field in a claim", configs{fromClaim(`"memlok": "1Gi"`)}, []string{"read the parameters of the claim", `unknown field "memlok"`}},
		{"unknown field in a class", configs{fromClass(`"allow": {"umad": true}`)}, []string{"read the parameters of the DeviceClass", `unknown field "allow.umad"`}},
		{"no parameters", configs{empty()}, []string{"parameters are empty"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.New(claim(one(result("nic", "pci-0000-3b-00-0")), tc.configs...), here)
			must.Error(t, err, must.Sprint("the plan was made"))
			for _, part := range append(tc.want, "claim team-a/nics, request nic: ") {
				test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
			}
		})
	}
}

func empty() resourceapi.DeviceAllocationConfiguration {
	c := fromClaim("")
	c.Opaque.Parameters.Raw = nil
	return c
}

// An administrator's access is bound by no class, but the kinds stay apart.
func TestMergeAdminAccess(t *testing.T) {
	access := one(admin(result("nic", "pci-0000-3b-00-0")))
	class := fromClass(`"allow": {"memlockMax": "1Gi"}`)
	p := newPlan(t, claim(access, class, fromClaim(`"nodes": ["mad"], "memlock": "unlimited"`)))
	want := plan.Device{
		Request: "nic", Pool: node, Device: "pci-0000-3b-00-0", AdminAccess: true,
		Settings: plan.Settings{Memlock: "unlimited", Nodes: onlyMAD},
	}
	test.Eq(t, []plan.Device{want}, p.Devices, test.Sprint("devices"))
	foreign := config(resourceapi.AllocationConfigSourceClaim, "HCAClassConfig", "", nil)
	_, err := plan.New(claim(access, foreign), here)
	test.Error(t, err, test.Sprint("a claim with an HCAClassConfig was planned"))
	no := false
	access[0].AdminAccess = &no
	_, err = plan.New(claim(access, fromClaim(`"nodes": ["mad"]`)), here)
	test.Error(t, err, test.Sprint("adminAccess: false was taken for access"))
}

// Requests and subrequests: a configuration for "nic" holds for all its
// subrequests, one for "nic/fast" for that alone.
func TestMergeByRequest(t *testing.T) {
	c := claim(
		[]resourceapi.DeviceRequestAllocationResult{
			result("nic/fast", "pci-0000-19-00-0"), result("other", "pci-0000-29-00-0"), result("plain", "pci-0000-3b-00-0"),
		},
		fromClass(`"allow": {"memlockMax": "8Gi"}`, "nic/fast"),
		fromClass(`"allow": {"memlockMax": "2Gi"}`, "other"),
		fromClaim(`"memlock": "1Gi"`, "nic"),
		fromClaim(`"memlock": "6Gi", "env": ["nccl"]`, "nic/fast"),
		fromClaim(`"memlock": "7Gi"`, "nic/slow"),
		fromClaim(`"env": ["ucx"]`, "other", "plain"),
	)
	want := []plan.Device{
		{Request: "nic/fast", Pool: node, Device: "pci-0000-19-00-0", Settings: withEnv(settings("6Gi"), "nccl")},
		{Request: "other", Pool: node, Device: "pci-0000-29-00-0", Settings: withEnv(settings("2Gi"), "ucx")},
		{Request: "plain", Pool: node, Device: "pci-0000-3b-00-0", Settings: withEnv(settings("unlimited"), "ucx")},
	}
	test.Eq(t, want, newPlan(t, c).Devices, test.Sprint("devices"))
}
