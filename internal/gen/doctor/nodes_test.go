package doctor

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"tags.cncf.io/container-device-interface/specs-go"
)

var nodeFaults = []fault{
	{
		name: "Omni-Path", machine: "omnipath-hfi1", plant: func(*fake) {},
		id: "psm-node", severity: Info, subject: "/dev/hfi1_0", reason: "PSM2", fix: "--nodes verbs,cm,psm",
	},
	{
		name:  "uverbs missing",
		plant: func(f *fake) { f.remove("/dev/infiniband/uverbs3") },
		id:    "node-missing", severity: Error, subject: "/dev/infiniband/uverbs3",
		reason: "in silence", fix: "udevadm trigger",
		also: []ID{"spec-stale"},
	},
	{
		name:  "rdma_cm missing",
		plant: func(f *fake) { f.remove("/dev/infiniband/rdma_cm") },
		id:    "node-missing", severity: Error, subject: "rdma_cm", also: []ID{"spec-stale"},
	},
	{
		name:  "umad missing",
		plant: func(f *fake) { f.remove("/dev/infiniband/umad1") },
		id:    "node-missing", severity: Warning, subject: "umad1", reason: "fabric tools",
	},
	{
		name:  "wrong number",
		plant: func(f *fake) { f.node("/dev/infiniband/uverbs3", 231, 200, 0o666) },
		id:    "node-wrong-device", severity: Error, subject: "uverbs3 (is 231:200, the kernel has 231:195)",
		fix: "rm /dev/infiniband/uverbs3 && udevadm",
	},
	{
		name:  "file instead of a node",
		plant: func(f *fake) { f.file("/dev/infiniband/uverbs3", "") },
		id:    "node-wrong-device", severity: Error, subject: "uverbs3 (no character device)",
	},
	{
		name: "link instead of a node",
		plant: func(f *fake) {
			f.remove("/dev/infiniband/uverbs3")
			f.link("/dev/infiniband/uverbs3", "uverbs2")
		},
		id: "node-wrong-device", severity: Error, subject: "uverbs3 (no character device)",
	},
	{
		name:  "uverbs for root only",
		plant: func(f *fake) { f.chmod("/dev/infiniband/uverbs0", 0o600) },
		id:    "node-mode", severity: Warning, subject: "uverbs0 (0600)", fix: "chmod 0666 /dev/infiniband/uverbs0\n",
	},
	{
		name:  "directory for root only",
		plant: func(f *fake) { f.put("/dev/infiniband", &fstest.MapFile{Mode: fs.ModeDir | 0o700}) },
		id:    "node-mode", severity: Warning, subject: "/dev/infiniband (0700)", fix: "chmod 0755 /dev/infiniband",
	},
	{
		name:  "rdma_cm for a group",
		plant: func(f *fake) { f.chmod("/dev/infiniband/rdma_cm", 0o660) },
		id:    "node-mode", severity: Warning, subject: "rdma_cm (0660)",
	},
	{
		name: "node of a device that is gone",
		plant: func(f *fake) {
			f.node("/dev/infiniband/uverbs77", 231, 250, 0o666)
			f.node("/dev/infiniband/mlx5_perm_ctrl_local", 240, 0, 0o600) // not ours to judge
		},
		id: "node-stale", severity: Warning, subject: "/dev/infiniband/uverbs77", fix: "rm /dev/infiniband/uverbs77",
	},
	{
		name: "all nodes", plant: func(*fake) {},
		id: "nodes-ok", severity: OK, title: "28 nodes",
	},
}

var privilegeFaults = []fault{
	{
		name:  "umad for everyone",
		plant: func(f *fake) { f.chmod("/dev/infiniband/umad0", 0o666); f.chmod("/dev/infiniband/issm0", 0o640) },
		id:    "mad-node-open", severity: Warning, subject: "umad0 (0666)",
		fix: "chmod 0600 /dev/infiniband/umad0 /dev/infiniband/issm0\n",
	},
	{
		name: "umad in a device",
		plant: func(f *fake) {
			f.file("/etc/cdi/other.json", strings.ReplaceAll(otherSpec, "NODE", "/dev/infiniband/umad0"))
		},
		id: "spec-gives-mad", severity: Warning, subject: "example.com/net=one", reason: "the fabric",
		fix: "rm /etc/cdi/other.json",
	},
	{
		name: "issm in all devices",
		plant: func(f *fake) {
			f.file("/etc/cdi/other.json", `{"cdiVersion":"0.3.0","kind":"example.com/net",`+
				`"containerEdits":{"deviceNodes":[{"path":"/dev/infiniband/issm0"}]},`+
				`"devices":[{"name":"one","containerEdits":{"env":["A=b"]}}]}`)
		},
		id: "spec-gives-mad", severity: Warning, subject: "every device of example.com/net",
	},
	{
		name: "umad in a device named for it",
		plant: func(f *fake) {
			f.file("/etc/cdi/other.json", strings.NewReplacer("NODE", "/dev/infiniband/umad0", "one", "mlx5_0-mad").
				Replace(otherSpec))
		},
		id: "spec-gives-mad", severity: Info, subject: "example.com/net=mlx5_0-mad",
	},
	{
		name: "umad in a claim",
		plant: func(f *fake) {
			f.file("/run/cdi/rdma.dev-claim_1.json", strings.NewReplacer("NODE", "/dev/infiniband/umad0", "example.com/net",
				"rdma.dev/claim").Replace(otherSpec))
		},
		id: "spec-gives-mad", severity: Info, subject: "rdma.dev/claim=one",
	},
	{
		name: "the whole directory",
		plant: func(f *fake) {
			f.file("/etc/cdi/other.json", `{"cdiVersion":"0.3.0","kind":"example.com/net",`+
				`"devices":[{"name":"one","containerEdits":`+
				`{"mounts":[{"hostPath":"/dev/infiniband/","containerPath":"/dev/infiniband"}]}}]}`)
		},
		id: "spec-gives-all", severity: Warning, subject: "/etc/cdi/other.json",
	},
	{
		name: "closed nodes", plant: func(*fake) {},
		id: "privilege-ok", severity: OK,
	},
}

// otherSpec is a spec of somebody else.
const otherSpec = `{"cdiVersion":"0.3.0","kind":"example.com/net",` +
	`"devices":[{"name":"one","containerEdits":{"deviceNodes":[{"path":"NODE"}]}}]}`

// A spec of the site may give the nodes of Omni-Path.
func TestPSMNodeGiven(t *testing.T) {
	f := newFake(t, "omnipath-hfi1")
	f.respec(func(s *specs.Spec) {
		e := &s.Devices[0].ContainerEdits
		e.DeviceNodes = append(e.DeviceNodes, &specs.DeviceNode{Path: "/dev/hfi1_0"})
	})
	for _, finding := range f.diagnose().Findings {
		test.NotEq(t, "psm-node", finding.ID, test.Sprintf("found %+v", finding))
	}
}
