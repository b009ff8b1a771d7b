package doctor

import (
	"io/fs"
	"strings"
	"testing/fstest"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// gpuSpec is a spec that is not about RDMA.
const gpuSpec = `{"cdiVersion":"0.3.0","kind":"example.com/gpu",` +
	`"devices":[{"name":"0a","containerEdits":{"env":["A=b"]}}]}`

var specFaults = []fault{
	{
		name:  "invalid spec of ours",
		plant: func(f *fake) { f.file(specPath, "cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices: []\n") },
		id:    "spec-invalid", severity: Error, subject: specPath, reason: "no devices", fix: "cdi-gen generate --to " +
			specPath,
	},
	{
		name:  "unknown field",
		plant: func(f *fake) { f.file(specPath, "cdiVersion: 0.3.0\nkind: rdma.dev/hca\nspeed: 400\n") },
		id:    "spec-invalid", severity: Error, reason: "speed",
	},
	{
		name: "declared version too low",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) {
				s.ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b"}}
			})
		},
		id: "spec-invalid", severity: Error, reason: "at least v0.5.0",
	},
	{
		name:  "empty file",
		plant: func(f *fake) { f.file(specPath, "") },
		id:    "spec-invalid", severity: Error,
	},
	{
		name:  "invalid spec of somebody else",
		plant: func(f *fake) { f.file("/etc/cdi/gpu.json", "{") },
		id:    "spec-invalid", severity: Warning, subject: "/etc/cdi/gpu.json", fix: "cdi-gen validate /etc/cdi/gpu.json",
	},
	{
		name: "twins",
		plant: func(f *fake) {
			f.spec("/etc/cdi/rdma.dev-hca.json", f.newSpec(cdi.KindHCA, f.uverbs()...))
		},
		id: "spec-twins", severity: Error, subject: "/etc/cdi/rdma.dev-hca.json",
		title:  "9 devices both in a .json and a .yaml",
		reason: "rdma.dev/hca=dev0", fix: "cdi-gen generate --to /etc/cdi/rdma.dev-hca.yaml",
	},
	{
		name:  "one device in two files",
		plant: func(f *fake) { f.spec("/etc/cdi/old.yaml", f.newSpec(cdi.KindHCA, "/dev/infiniband/uverbs0")) },
		id:    "spec-conflict", severity: Error, subject: "/etc/cdi/old.yaml", title: "1 device in 2 files",
		reason: "rdma.dev/hca=dev0",
	},
	{
		name: "one foreign device in two files",
		plant: func(f *fake) {
			spec := strings.ReplaceAll(gpuSpec, "0a", "a0")
			f.file("/etc/cdi/gpu.json", spec)
			f.file("/etc/cdi/gpu-old.json", spec)
		},
		id: "spec-conflict", severity: Warning, reason: "example.com/gpu=a0",
	},
	{
		name:  "spec in both directories",
		plant: func(f *fake) { f.spec("/run/cdi/rdma.dev-hca.yaml", f.newSpec(cdi.KindHCA, "/dev/infiniband/uverbs0")) },
		id:    "spec-shadowed", severity: Info, subject: "/var/run/cdi/rdma.dev-hca.yaml", title: "1 device", fix: "diff ",
	},
	{
		name: "device that is gone",
		plant: func(f *fake) {
			f.spec(specPath, f.newSpec(cdi.KindHCA,
				append(f.uverbs(), "/dev/infiniband/uverbs40", "/dev/infiniband/uverbs40")...))
		},
		id: "spec-stale", severity: Error, subject: "/dev/infiniband/uverbs40", title: "1 node",
		fix: "cdi-gen generate --to " + specPath,
	},
	{
		name: "claim of a device that is gone",
		plant: func(f *fake) {
			f.spec("/run/cdi/rdma.dev-claim_1.json", f.newSpec(cdi.KindClaim, "/dev/infiniband/uverbs40"))
		},
		id: "spec-stale", severity: Error, subject: "rdma.dev-claim_1.json", fix: "rollout restart daemonset",
	},
	{
		name: "pinned number",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) {
				n := s.Devices[0].ContainerEdits.DeviceNodes[0]
				n.Type, n.Major, n.Minor = "c", 231, 199
			})
		},
		id: "spec-wrong-device", severity: Error, subject: "(231:199 in the spec, 231:192 on the host)",
	},
	{
		name: "node that another HCA has now",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) { s.Devices[0].ContainerEdits.Env[0] = "RDMA_DEVICE_PCI_0000_29_00_0=mlx5_1" })
		},
		id: "spec-wrong-device", severity: Error, subject: "dev0", title: "1 device that would give another HCA",
		reason: "it is for pci-0000-29-00-0, and uverbs0 belongs to pci-0000-19-00-0 (mlx5_0) now",
	},
	{
		name: "HCA that was renamed",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) { s.Devices[0].ContainerEdits.Env[0] = "RDMA_DEVICE_PCI_0000_19_00_0=mlx5_9" })
		},
		id: "spec-wrong-device", severity: Error, reason: "pci-0000-19-00-0 is called mlx5_0 now, and was mlx5_9",
	},
	{
		name: "HCA left out because its node was missing",
		plant: func(f *fake) {
			f.spec(specPath, f.newSpec(cdi.KindHCA, f.uverbs()[:8]...))
			f.remove("/dev/infiniband/uverbs8")
		},
		id: "spec-stale", severity: Warning, subject: "mlx5_8", reason: "see node-missing", also: []ID{"node-missing"},
	},
	{
		name:  "no spec",
		plant: func(f *fake) { f.remove(specPath) },
		id:    "spec-none", severity: Warning, fix: "cdi-gen generate --to /etc/cdi",
	},
	{
		name: "Kubernetes node without a claim",
		plant: func(f *fake) {
			f.remove(specPath)
			f.dir("/var/lib/kubelet/plugins/rdma.dev")
		},
		id: "specs-ok", severity: OK, title: "for each claim",
	},
	{
		name: "node with claims",
		plant: func(f *fake) {
			f.remove(specPath)
			f.spec("/run/cdi/rdma.dev-claim_1.json", f.newSpec(cdi.KindClaim, "/dev/infiniband/uverbs0"))
		},
		id: "hook-ok", severity: OK,
	},
	{
		name:  "devices in no spec",
		plant: func(f *fake) { f.spec(specPath, f.newSpec(cdi.KindHCA, f.uverbs()[:7]...)) },
		id:    "spec-incomplete", severity: Warning, title: "2 RDMA devices",
	},
	{
		name:  "spec from before rdma_ucm was loaded",
		plant: func(f *fake) { f.respec(func(s *specs.Spec) { s.ContainerEdits.DeviceNodes = nil }) },
		id:    "spec-incomplete", severity: Warning, title: "rdma_cm in no spec", subject: "/dev/infiniband/rdma_cm",
		fix: "cdi-gen generate --to /etc/cdi",
	},
	{
		name: "EFA does without rdma_cm", machine: "aws-p5",
		plant: func(f *fake) {
			f.sys("class/misc/rdma_cm/dev", "10:121\n")
			f.node("/dev/infiniband/rdma_cm", 10, 121, 0o666)
		},
		id: "specs-ok", severity: OK,
	},
	{
		name:  "wrong ending",
		plant: func(f *fake) { f.file("/etc/cdi/gpu.yml", "x") },
		id:    "spec-extension", severity: Warning, subject: "/etc/cdi/gpu.yml", fix: "mv /etc/cdi/gpu.yml /etc/cdi/gpu.yaml",
	},
	{
		name:  "closed to users",
		plant: func(f *fake) { f.chmod(specPath, 0o600) },
		id:    "spec-mode", severity: Warning, subject: specPath, title: "0600", fix: "chmod 0644",
	},
	{
		name: "closed to users, behind a link",
		plant: func(f *fake) {
			f.file("/run/cdi/gpu.json", strings.ReplaceAll(gpuSpec, "0a", "a0"))
			f.chmod("/run/cdi/gpu.json", 0o600)
		},
		id: "spec-mode", severity: Warning, subject: "/var/run/cdi/gpu.json", title: "a spec with mode 0600",
		fix: "chmod 0644 /run/cdi/gpu.json",
	},
	{
		name:  "directory closed to users",
		plant: func(f *fake) { f.put("/etc/cdi", &fstest.MapFile{Mode: fs.ModeDir | 0o700}) },
		id:    "spec-mode", severity: Warning, subject: "/etc/cdi", title: "directory with mode 0700", fix: "chmod 0755 /etc/cdi",
	},
	{
		name: "other files and directories",
		plant: func(f *fake) {
			f.file("/etc/cdi/README", "x")
			f.file("/etc/cdi/spec.123.tmp", "x")
			f.dir("/etc/cdi/old.json")
			f.file("/etc/cdi/old.json/a.json", "{")
			f.file("/etc/cdi/gpu.json", strings.ReplaceAll(gpuSpec, "0a", "a0"))
		},
		id: "specs-ok", severity: OK, title: "1 RDMA spec, for all 9 devices",
	},
}
