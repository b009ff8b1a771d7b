package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

var hook = plan.HookOptions{Path: "/opt/rdma.dev/bin/rdma-hook-1", OnDenied: "clamp"}

type results = []resourceapi.DeviceRequestAllocationResult

// TestSpecGolden compares whole specs, as a runtime reads them.
func TestSpecGolden(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		results       results
		configs       configs
		hook          plan.HookOptions
	}{
		{"one-hca", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), nil, hook},
		{"two-requests", "hgx-h100", results{result("a", "pci-0000-19-00-0"), result("b", "pci-0000-29-00-0")}, nil, hook},
		{"subrequest", "roce-sriov", one(result("nic/vf", "pci-0000-3b-00-4")), nil, hook},
		{
			"several-with-env", "hgx-h100",
			results{result("nics", "pci-0000-29-00-0"), result("nics", "pci-0000-19-00-0")},
			configs{fromClaim(`"env": ["libfabric", "nccl", "nvshmem", "ucx"]`)}, hook,
		},
		{
			"marks", "hgx-h100", results{result("nics", "pci-0000-29-00-0"), result("nics", "pci-0000-19-00-0")},
			configs{fromClass(`"allow": {"trafficClasses": [106], "serviceLevels": [0, 3]}, ` +
				`"defaults": {"trafficClass": 106, "serviceLevel": 3}`),
				fromClaim(`"env": ["libfabric", "nccl", "nccl-gid-index", "nvshmem", "ucx", "vllm"], "serviceLevel": 0`)}, hook,
		},
		{
			"nccl-topology", "hgx-h100", results{result("a", "pci-0000-29-00-0"), result("b", "pci-0000-19-00-0")},
			configs{fromClaim(`"env": ["nccl", "nccl-topology"]`, "a")}, hook,
		},
		{
			"mixed-settings", "hgx-h100",
			results{result("big", "pci-0000-19-00-0"), result("small", "pci-0000-29-00-0"), result("none", "pci-0000-3b-00-0")},
			configs{fromClaim(`"memlock": "1Gi", "nodes": ["verbs"]`, "small"), fromClaim(`"memlock": "inherit"`, "none")}, hook,
		},
		{"efa", "aws-p5", one(result("nic", "pci-0000-4f-00-0")), configs{fromClaim(`"env": ["ucx"]`)}, hook},
		{"dual-port", "mlx4-dual-port", one(result("nic", "pci-0000-82-00-0")), configs{fromClaim(`"env": ["nccl", "ucx"]`)}, hook},
		{"switchdev-pf", "switchdev", one(result("nic", "pci-0000-08-00-0")), configs{fromClaim(`"env": ["ucx"]`)}, hook},
		{"subfunction", "mlx5-sf", one(result("nic", "pci-0000-c1-00-0-sf-88")), nil, hook},
		{"soft", "soft", one(result("nic", "soft-rxe-eth0")), nil, hook},
		{
			"management", "dgx-h100-ib", one(result("sm", "pci-0000-18-00-0")),
			configs{fromClass(`"allow": {"nodes": ["verbs", "cm", "mad", "sm"]}, "defaults": {"nodes": ["verbs", "mad", "sm"]}`)}, hook,
		},
		{
			"psm", "omnipath-hfi1", one(result("nic", "pci-0000-5e-00-0")),
			configs{fromClass(`"allow": {"nodes": ["verbs", "cm", "psm"]}, "defaults": {"nodes": ["verbs", "cm", "psm"]}`)}, hook,
		},
		{"admin-beside", "hgx-h100", results{admin(result("watch", "pci-0000-19-00-0")), result("use", "pci-0000-19-00-0")}, nil, hook},
		{"shares", "hgx-h100", results{share(result("a", "pci-0000-19-00-0"), "s1"), share(result("a", "pci-0000-19-00-0"), "s2")}, configs{fromClaim(`"env": ["nccl"]`)}, hook},
		{"share-limits", "hgx-h100", one(consuming(share(result("a", "shared-pci-0000-19-00-0"), "s1"), "handles", "64", "objects", "16Ki")), nil, hook},
		{
			"limits-inherit", "hgx-h100", results{result("a", "pci-0000-19-00-0"), result("b", "pci-0000-29-00-0")},
			configs{fromClaim(`"memlock": "inherit"`), fromClass(`"allow": {"limitsMax": {"objects": 200}}`, "a"), fromClaim(`"limits": {"objects": 100}`, "a")}, hook,
		},
		{"limits-no-hook", "hgx-h100", one(result("a", "pci-0000-19-00-0")), configs{fromClass(`"allow": {"limitsMax": {"handles": 9}}`), fromClaim(`"limits": {"handles": 8}`)}, plan.HookOptions{}},
		{
			"group", "roce-sriov", one(share(result("nics", "group-all"), "s1")),
			configs{fromClass(`"allow": {"limitsMax": {"handles": 9}}`), fromClaim(`"env": ["nccl", "ucx"], "limits": {"handles": 8}`)}, hook,
		},
		{"no-hook", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), nil, plan.HookOptions{}},
		{"unusable-fail", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), configs{fromClaim(`"onUnusable": "fail"`)}, hook},
		{"unusable-ignore", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), configs{fromClaim(`"onUnusable": "ignore"`)}, hook},
		{"inherit", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), configs{fromClaim(`"memlock": "inherit"`)}, hook},
		{
			"hook-report", "hgx-h100", one(result("nic", "pci-0000-19-00-0")), configs{fromClaim(`"memlock": "64Ki"`)},
			plan.HookOptions{Path: hook.Path, OnDenied: "fail", ReportDir: "/run/rdma.dev/reports"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec, err := grouped(t, claim(tc.results, tc.configs...)).Spec(rdmatest.Snapshot(t, tc.machine), tc.hook, "")
			must.NoError(t, err)
			test.True(t, slices.Contains([]string{"0.3.0", "0.4.0", "0.5.0"}, spec.Version),
				test.Sprintf("spec needs CDI %s, and podman 4.3 reads 0.5.0 at most", spec.Version))
			data, err := cdi.Encode(spec, cdi.JSON)
			must.NoError(t, err)
			golden.Bytes(t, tc.name+".json", data)
		})
	}
}

// TestSpecOfSite: what the node's administrator adds stands in every claim, and a
// claim's own words come after it.
func TestSpecOfSite(t *testing.T) {
	node := here
	node.Site = plan.Site{
		Memlock: "4Gi", Env: []string{"NCCL_DEBUG=WARN", "NCCL_IB_HCA=mlx5_9"},
		Mounts: []cdi.Mount{{HostPath: "/opt/topo.xml", ContainerPath: "/opt/topo.xml"}},
	}
	p, err := plan.New(claim(results{result("a", "pci-0000-19-00-0"), result("b", "pci-0000-29-00-0")}, fromClaim(`"env": ["nccl"]`)), node)
	must.NoError(t, err)
	spec, err := p.Spec(rdmatest.Snapshot(t, "hgx-h100"), hook, "")
	must.NoError(t, err)
	data, err := cdi.Encode(spec, cdi.JSON)
	must.NoError(t, err)
	golden.Bytes(t, "site.json", data)
}

// TestSpecOfVLLM: vLLM's UCX gets the marks and the map. An empty map sets neither variable: vLLM refuses one of them.
func TestSpecOfVLLM(t *testing.T) {
	p := newPlan(t, claim(results{result("a", "pci-0000-19-00-0"), result("b", "pci-0000-29-00-0")},
		fromClass(`"allow": {"trafficClasses": [106]}`), fromClaim(`"env": ["vllm"], "trafficClass": 106`, "b")))
	must.True(t, !p.Devices[0].WantsVLLM() && p.Devices[1].WantsVLLM())
	for gpus, want := range map[string][]string{
		"": {"UCX_IB_TRAFFIC_CLASS=106"},
		"0000:18:00.0=0000:19:00.0": {"VLLM_GPU_NIC_PCIE_MAPPING=0000:18:00.0=0000:19:00.0",
			"VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1", "UCX_IB_TRAFFIC_CLASS=106"},
	} {
		spec, err := p.Spec(rdmatest.Snapshot(t, "hgx-h100"), hook, gpus)
		must.NoError(t, err)
		for i, extra := range [][]string{nil, want} {
			test.Eq(t, 1+len(extra), len(spec.Devices[i].ContainerEdits.Env))
			test.SliceContainsSubset(t, spec.Devices[i].ContainerEdits.Env, extra)
		}
	}
}

// TestTopologyOfSite: a topology file of the node's administrator is the better one, and a claim
// that does not ask has none.
func TestTopologyOfSite(t *testing.T) {
	node := here
	node.Site.Env = []string{"NCCL_TOPO_FILE=/opt/topo.xml"}
	asks := claim(one(result("a", "pci-0000-19-00-0")), fromClaim(`"env": ["nccl-topology"]`))
	for name, tc := range map[string]struct {
		node plan.Facts
		want string
	}{
		"asks":     {here, "/var/lib/kubelet/plugins/rdma.dev/metadata/" + string(asks.UID) + "/nccl-topology.xml"},
		"site has": {node, ""},
	} {
		p, err := plan.New(asks, tc.node)
		test.True(t, err == nil && p.NCCLTopology == tc.want,
			test.Sprintf("%s: %q, %v; want %q", name, p.NCCLTopology, err, tc.want))
	}
	test.Eq(t, "", newPlan(t, claim(one(result("a", "pci-0000-19-00-0")), fromClaim(`"env": ["nccl"]`))).NCCLTopology,
		test.Sprint("a claim that does not ask"))
}

// A user's claim never opens the management interface of a fabric, on any machine.
func TestSpecHasNoManagementNodes(t *testing.T) {
	for _, machine := range []string{"hgx-h100", "dgx-h100-ib", "roce-sriov", "smi-multiplane", "mlx4-dual-port", "switchdev", "soft"} {
		snap := rdmatest.Snapshot(t, machine)
		for _, h := range snap.Usable() {
			spec, err := newPlan(t, claim(one(result("nic", h.Name)))).Spec(snap, hook, "")
			must.NoError(t, err)
			data, err := cdi.Encode(spec, cdi.JSON)
			must.NoError(t, err)
			s := string(data)
			test.True(t, !strings.Contains(s, "umad") && !strings.Contains(s, "issm") &&
				strings.Count(s, "/uverbs") == 1,
				test.Sprintf("%s, %s: want one uverbs node and no umad or issm:\n%s", machine, h.Name, s))
		}
	}
}

// What the host does not have fails the claim as a whole, and says which device.
func TestSpecErrors(t *testing.T) {
	management := fromClass(`"allow": {"nodes": ["mad", "sm"]}, "defaults": {"nodes": ["mad"]}`)
	for _, tc := range []struct {
		name, machine string
		results       results
		configs       configs
		want          []string
	}{
		{"absent", "hgx-h100", one(result("nic", "pci-0000-ff-00-0")), nil, []string{"device pci-0000-ff-00-0", "the host has no such RDMA device now"}},
		{"one of two absent", "hgx-h100", results{result("a", "pci-0000-19-00-0"), result("b", "pci-0000-ff-00-0")}, nil, []string{"device pci-0000-ff-00-0"}},
		{"member of a group absent", "hgx-h100", one(result("nics", "group-all")), nil, []string{"device pci-0000-3b-00-1", "the host has no such RDMA device now"}},
		{"no uverbs", "misbehaving", one(result("nic", "pci-0000-04-00-0")), nil, []string{"device pci-0000-04-00-0", "no uverbs node", "load the ib_uverbs module"}},
		{"EFA has no umad", "aws-p5", one(result("nic", "pci-0000-4f-00-0")), configs{management}, []string{"device pci-0000-4f-00-0", "no umad node", "ib_umad"}},
		{"PSM of another card", "roce-lag", one(result("nic", "pci-0000-3b-00-0")),
			configs{fromClass(`"allow": {"nodes": ["psm"]}, "defaults": {"nodes": ["psm"]}`)},
			[]string{"no hfi1 node", "only Omni-Path has one"}},
		{"port without issm", "roce-lag", one(result("nic", "pci-0000-3b-00-0")), configs{management, fromClaim(`"nodes": ["sm"]`)}, []string{"no issm node"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := grouped(t, claim(tc.results, tc.configs...)).Spec(rdmatest.Snapshot(t, tc.machine), hook, "")
			_, ok := errors.AsType[*plan.NotFoundError](err)
			must.True(t, ok, must.Sprintf("error is %v, want a NotFoundError", err))
			for _, part := range append(tc.want, "claim team-a/nics: ") {
				test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
			}
		})
	}
}
