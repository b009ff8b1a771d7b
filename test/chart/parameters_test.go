package chart

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// verdict is what the driver says of parameters. An API server with the policies of the
// chart has to say the same: test/cluster/policies asks a real one.
type verdict struct {
	In         string          `json:"in"` // claim or class
	Parameters json.RawMessage `json:"parameters"`
	Good       bool            `json:"good"`
	Says       string          `json:"says,omitempty"` // part of what the policy says
	// Beyond says that the driver finds defaults above what the class allows, which the
	// policy may leave to it.
	Beyond bool `json:"beyond,omitempty"`
}

var kinds = map[string]string{"claim": v1alpha1.HCAConfigKind, "class": v1alpha1.HCAClassConfigKind}

func judge(in, raw, says string) verdict {
	_, err := v1alpha1.Decode([]byte(raw))
	beyond := err != nil && says == "" && strings.Contains(err.Error(), "more than the DeviceClass allows")
	return verdict{In: in, Parameters: []byte(raw), Good: err == nil, Says: says, Beyond: beyond}
}

// TestParameters writes down what the driver says of parameters: of each mistake by itself, and of those in
// testdata/random-parameters.txt. They were made at random from parts. One part in twelve is bad.
func TestParameters(t *testing.T) {
	var verdicts bytes.Buffer
	write := func(v verdict) {
		line, err := json.Marshal(v)
		must.NoError(t, err, must.Sprintf("%v: %s", err, v.Parameters))
		verdicts.Write(append(line, '\n'))
	}
	for _, tc := range namedParameters {
		v := judge(tc.in, parametersOf(t, tc.in, tc.fields), tc.says)
		test.Eq(t, (tc.says == ""), v.Good, test.Sprintf("%s of a %s: the driver accepts them", tc.fields, tc.in))
		write(v)
	}
	for line := range strings.Lines(readFile(t, "testdata/random-parameters.txt")) {
		in, parameters, _ := strings.Cut(strings.TrimSpace(line), " ")
		write(judge(in, parameters, ""))
	}
	golden.File(t, "testdata/parameters.golden.jsonl", verdicts.Bytes())
}

func parametersOf(t *testing.T, in, fields string) string {
	t.Helper()
	parameters := map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kinds[in]}
	must.NoError(t, yaml.Unmarshal([]byte(fields), &parameters))
	raw, err := json.Marshal(parameters)
	must.NoError(t, err)
	return string(raw)
}

const envWords = "libfabric, libfabric-gid-index, nccl, nccl-gid-index, nccl-topology, " +
	"nvshmem, nvshmem-gid-index, ucx, ucx-gid-index, vllm"

// namedParameters have at most one mistake each. The field says holds what the policy says of the mistake.
var namedParameters = []struct{ in, fields, says string }{
	{"claim", "", ""},
	{"claim", "memlock: 4Gi\nnodes: [verbs, cm]\nenv: [libfabric, nccl, nccl-gid-index, nccl-topology, nvshmem, ucx]\n" +
		"limits: {handles: 64, objects: 1M}", ""},
	{"claim", "memlock: 65536\nnodes: null\nlimits: {handles: null}", ""},
	{"claim", "memlock: 1.5Gi\nlimits: {objects: 1.5Ki}", ""},
	{"claim", "memlock: 64m", ""},
	{"claim", "memlock: 65536000m", ""},
	{"claim", "memlock: 9000000000000m", "memlock: want"},
	{"claim", "memlock: 4g", ""},
	{"claim", "memlock: 4GB", ""},
	{"claim", "memlock: 1.5gib", ""},
	{"claim", "memlock: 4096b", ""},
	{"claim", "memlock: 1K", ""},
	{"claim", "memlock: 1e3", ""},
	{"claim", "memlock: 9000000g", ""},
	{"claim", "memlock: 9000p", "memlock: want"},
	{"claim", "memlock: 0g", "memlock: want"},
	{"claim", "memlock: .b", "memlock: want"},
	{"claim", "memlock: 4gg", "memlock: want"},
	{"claim", "memlock: 4EB", "memlock: want"},
	{"claim", "memlock: 1000u", "memlock: want"},
	{"claim", "memlock: \"1099511627776000000\"", ""},
	{"claim", "memlock: 16Ei", "memlock: want"},
	{"claim", "limits: {objects: 1.0001k}", "limits: want whole numbers"},
	{"claim", "memLock: 4Gi", "unknown field memLock, want one of apiVersion, kind, memlock"},
	{"claim", "allow: {nodes: [mad]}", "unknown field allow"},
	{"claim", "kind: HCAClassConfig\nallow: 1", "want apiVersion rdma.dev/v1alpha1 and kind HCAConfig"},
	{"claim", "apiVersion: rdma.dev/v1", "want apiVersion rdma.dev/v1alpha1 and kind HCAConfig"},
	{"claim", "memlock: lots", "memlock: want unlimited, inherit or"},
	{"claim", "memlock: 0", "memlock: want"},
	{"claim", "memlock: 1500u", "memlock: want"},
	{"claim", "memlock: [4Gi]", "memlock: want"},
	{"claim", "nodes: [verbs, umad]", "nodes: want a list of verbs, cm, psm, mad, sm"},
	{"claim", "nodes: verbs", "nodes: want a list"},
	{"claim", "nodes: [cm, cm]", "nodes: want a list of verbs, cm, psm, mad, sm, each at most once"},
	{
		"claim",
		"env: [mpi]",
		"env: want a list of " + envWords,
	},
	{"claim", "env: [nccl]\ntrafficClass: 106\nserviceLevel: 3", ""},
	{"claim", "onUnusable: fail", ""},
	{"claim", "onUnusable: null", ""},
	{"claim", "onUnusable: never", "onUnusable: want warn, fail, ignore"},
	{"class", "defaults: {onUnusable: fail}", ""},
	{"class", "defaults: {onUnusable: 1}", "defaults.onUnusable: want warn, fail, ignore"},
	{"claim", "trafficClass: 0\nserviceLevel: null", ""},
	{"claim", "trafficClass: 256", "trafficClass: want 0 to 255"},
	{"claim", "trafficClass: -1", "trafficClass: want 0 to 255"},
	{"claim", "trafficClass: '106'", "trafficClass: want 0 to 255"},
	{"claim", "trafficClass: 106.5", "trafficClass: want 0 to 255"},
	{"claim", "serviceLevel: 16", "serviceLevel: want 0 to 15"},
	{"claim", "serviceLevel: [3]", "serviceLevel: want 0 to 15"},
	{"claim", "trafficClasses: [106]", "unknown field trafficClasses"},
	{"claim", "env: {LD_PRELOAD: /x}", "env: want a list"},
	{"claim", "env: [LD_PRELOAD=/x]", "env: want a list"},
	{"claim", "env: ['NCCL_IB_TC=1']", "env: want a list"},
	{"claim", "variables: {NCCL_IB_TC: '1'}", "unknown field variables"},
	{"claim", "gidIndex: 3", "unknown field gidIndex"},
	{"claim", "limits: 8", "limits: want an object"},
	{"claim", "limits: {qps: 8}", "unknown field limits.qps"},
	{"claim", "limits: {handles: 0}", "limits: want whole numbers from 1"},
	{"claim", "network: {mode: macvlan, interface: roce0, addresses: [10.1.2.3/24, 'fd00::1/64'], mtu: 4200, routes: [{destination: 10.2.0.0/16, gateway: 10.1.2.1}, {destination: 'fd01::/16'}]}", ""},
	{"claim", "network: {mode: move, ipam: roce, addresses: []}", ""},
	{"claim", "network: {mode: macvlan, addresses: [10.1.2.3/24], gateways: [10.1.2.1, 'fe80::1']}", ""},
	{"claim", "network: {gateways: []}", ""},
	{"claim", "network: {gateways: [10.1.2.1, 10.1.3.1]}", "network.gateways: want IP addresses"},
	{"claim", "network: {gateways: [10.1.2.1/24]}", "network.gateways: want IP addresses"},
	{"claim", "network: {gateways: 10.1.2.1}", "network.gateways: want IP addresses"},
	{"claim", "network: {gateways: ['::ffff:10.1.2.1']}", "network.gateways: want IP addresses"},
	{"claim", "network: {gateways: [1]}", "network.gateways: want IP addresses"},
	{"claim", "network: {mode: '', interface: null, mtu: null, routes: null}", ""},
	{"claim", "network: macvlan", "network: want an object with mode, vlan"},
	{"claim", "network: {master: eth0}", "unknown field network.master"},
	{"claim", "network: {mode: ipvlan}", ""},
	{"claim", "network: {mode: ipvtap}", "network.mode: want none, move, macvlan or ipvlan"},
	{"claim", "network: {interface: eth0}", "network.interface: want a name"},
	{"claim", "network: {interface: a/b}", "network.interface: want a name"},
	{"claim", "network: {interface: an-interface-that-is-too-long}", "network.interface: want a name"},
	{"claim", "network: {mode: macvlan, vlan: 1}", ""},
	{"claim", "network: {mode: ipvlan, vlan: 4094}", ""},
	{"claim", "network: {vlan: null}", ""},
	{"claim", "network: {vlan: 0}", "network.vlan: want 1 to 4094"},
	{"claim", "network: {vlan: 4095}", "network.vlan: want 1 to 4094"},
	{"claim", "network: {vlan: '100'}", "network.vlan: want 1 to 4094"},
	{"claim", "network: {mtu: 67}", "network.mtu: want 68 to 65535"},
	{"claim", "network: {addresses: [10.1.2.3]}", "network.addresses: want at most 16 IP addresses"},
	{"claim", "network: {addresses: [10.1.2.3/24, 10.1.2.3/24]}", "network.addresses: want"},
	{"claim", "network: {addresses: [10.1.2.3/24], ipam: roce}", "want one of the two"},
	{"claim", "network: {routes: [{destination: 10.2.0.1/16}]}", "network.routes: want"},
	{"claim", "network: {routes: [{gateway: 10.2.0.1}]}", "network.routes: want"},
	{"claim", "network: {routes: [{destination: 10.2.0.0/16, gateway: 'fd00::1'}]}", "network.routes: want"},
	{"claim", "network: {routes: [{destination: 10.2.0.0/16, dev: eth0}]}", "network.routes: want"},
	{"class", "allow: {network: {modes: [none, move, macvlan, ipvlan], addresses: [10.1.0.0/16], ipam: [roce], " +
		"gateways: [10.1.0.0/16], routes: [0.0.0.0/0]}}\n" +
		"defaults: {network: {mode: macvlan, ipam: roce}}", ""},
	{"class", "allow: {network: null}\ndefaults: {network: null}", ""},
	{"class", "allow: {network: {modes: [bond]}}", "allow.network.modes: want a list"},
	{"class", "allow: {network: {type: x}}", "unknown field allow.network.type"},
	{"class", "allow: {network: {routes: [all]}}", "allow.network.routes: want"},
	{"class", "allow: {network: {gateways: [10.1.2.1]}}", "allow.network.gateways: want"},
	{"class", "allow: {network: {vlans: [100, 4094]}}\ndefaults: {network: {vlan: 100}}", ""},
	{"class", "allow: {network: {vlans: null}}", ""},
	{"class", "allow: {network: {vlans: 100}}", "allow.network.vlans: want"},
	{"class", "allow: {network: {vlans: [0]}}", "allow.network.vlans: want"},
	{"class", "allow: {network: {vlans: ['100']}}", "allow.network.vlans: want"},
	{"class", "allow: {network: {ipam: [1]}}", "allow.network.ipam: want a list of names"},
	{"class", "allow: {network: {mtuMax: 9000}}\ndefaults: {network: {mtu: 9000}}", ""},
	{"class", "allow: {network: {mtuMax: null}}", ""},
	{"class", "allow: {network: {mtuMax: 67}}", "allow.network.mtuMax: want 68 to 65535"},
	{"class", "allow: {network: {mtuMax: '9000'}}", "allow.network.mtuMax: want 68 to 65535"},
	{"class", "allow: {network: {mtuMax: [9000]}}", "allow.network.mtuMax: want 68 to 65535"},
	{"class", "defaults: {network: {mtu: 1}}", "defaults.network.mtu: want"},
	{"class", "", ""},
	{"class", "allow: {nodes: [verbs, mad], memlockMax: 8Gi, limitsMax: {handles: 8}}\ndefaults: {memlock: 1Gi, nodes: [mad], env: [ucx], limits: {objects: 1k}}", ""},
	{"class", "allow: null\ndefaults: null", ""},
	{"class", "memlock: 4Gi", "unknown field memlock, want one of apiVersion, kind, allow, defaults"},
	{"class", "apiVersion: rdma.dev/v1", "want apiVersion rdma.dev/v1alpha1 and kind HCAClassConfig"},
	{"class", "allow: [mad]", "allow and defaults: want an object"},
	{"class", "allow: {memlockMax: inherit}", "allow.memlockMax: want unlimited or"},
	{"class", "allow: {nodes: [issm]}", "allow.nodes: want a list"},
	{"class", "allow: {env: [nccl]}\ndefaults: {env: [nccl]}", ""},
	{"class", "allow: {env: []}", ""},
	{
		"class",
		"allow: {env: [mpi]}",
		"allow.env: want a list of " + envWords,
	},
	{"class", "allow: {env: [ucx]}\ndefaults: {env: [nccl-topology]}", "defaults.env: more than allow.env allows"},
	{"class", "allow: {trafficClasses: [106, 0], serviceLevels: [3]}\n" +
		"defaults: {env: [nccl], trafficClass: 106, serviceLevel: 3}", ""},
	{"class", "allow: {trafficClasses: [], serviceLevels: null}", ""},
	{"class", "allow: {trafficClasses: [256]}", "allow.trafficClasses: want a list of 0 to 255"},
	{"class", "allow: {trafficClasses: 106}", "allow.trafficClasses: want a list of 0 to 255"},
	{"class", "allow: {serviceLevels: [3, 3]}", "allow.serviceLevels: want a list of 0 to 15, each at most once"},
	{"class", "defaults: {trafficClass: 106}", "defaults.trafficClass: more than allow.trafficClasses allows"},
	{"class", "allow: {serviceLevels: [1]}\ndefaults: {serviceLevel: 2}",
		"defaults.serviceLevel: more than allow.serviceLevels allows"},
	{"class", "defaults: {trafficClass: 300}", "defaults.trafficClass: want 0 to 255"},
	{"class", "allow: {umad: true}", "unknown field allow.umad"},
	{"class", "allow: {limitsMax: {objects: many}}", "allow.limitsMax: want whole numbers"},
	{"class", "defaults: {allow: 1}", "unknown field defaults.allow"},
	{"class", "defaults: {memlock: x}", "defaults.memlock: want"},
	{"class", "defaults: {limits: {qps: 1}}", "unknown field defaults.limits.qps"},
	{"class", "defaults: {nodes: [mad]}", "defaults.nodes: more than allow.nodes allows"},
}
