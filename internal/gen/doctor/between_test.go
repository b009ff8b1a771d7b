package doctor

import (
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

const (
	criV2 = "[plugins.'io.containerd.grpc.v1.cri']\n"
	criV3 = "[plugins.'io.containerd.cri.v1.runtime']\n"
	// dropIn is a file as the NVIDIA toolkit writes it.
	dropIn = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n"
)

// linked puts the specs of /etc/cdi behind a link.
func linked(f *fake) {
	spec := f.root["etc/cdi/rdma.dev-hca.yaml"]
	f.remove(specPath)
	f.root["etc/cdi.real/rdma.dev-hca.yaml"] = spec
	f.link("/etc/cdi", "cdi.real")
}

func selinux(f *fake, enforce, boolean string) {
	f.sys("fs/selinux/enforce", enforce)
	f.sys("fs/selinux/booleans/container_use_devices", boolean)
}

// quadlet is a container that starts at boot.
const quadlet = "[Container]\nImage=x\nAddDevice=rdma.dev/hca=mlx5_0\n[Install]\nWantedBy=multi-user.target\n"

// volatile moves the host's spec to the directory that is empty after a boot.
func volatile(f *fake) {
	f.remove(specPath)
	f.spec("/run/cdi/rdma.dev-hca.yaml", f.newSpec(cdi.KindHCA, f.uverbs()...))
}

// betweenFaults are what stands between a spec and a container.
var betweenFaults = []fault{
	{
		name: "linked directory of specs, podman 4.3", plant: linked,
		id: "spec-dir", severity: Error, subject: "/etc/cdi", reason: "do not follow it", fix: "mv /etc/cdi.new /etc/cdi",
		also: []ID{"runtime-dirs"},
	},
	{
		name:  "linked directory without specs of ours",
		plant: func(f *fake) { volatile(f); f.dir("/etc/other"); f.link("/etc/cdi", "other") },
		id:    "spec-dir", severity: Warning, subject: "/etc/cdi",
	},
	{
		name:  "file in the place of a directory of specs",
		plant: func(f *fake) { volatile(f); f.file("/etc/cdi", "") },
		id:    "spec-dir", severity: Warning, fix: "rm /etc/cdi && mkdir /etc/cdi",
	},
	{
		name: "linked directory of specs, containerd 2.4 alone",
		plant: func(f *fake) {
			linked(f)
			delete(f.output, "podman")
			f.output["containerd"] = "containerd github.com/containerd/containerd/v2 v2.4.0 x\n"
		},
		id: "specs-ok", severity: OK,
	},
	{
		name: "missing directory hides the next, CRI-O 1.25",
		plant: func(f *fake) {
			volatile(f)
			f.output["crio"] = "crio version 1.25.1\n"
		},
		id: "runtime-dirs", severity: Warning, title: "crio 1.25.1", reason: "stops at /etc/cdi, which is missing",
		fix: "mkdir -p /etc/cdi",
	},
	{
		name: "kind that makes runtimes panic",
		plant: func(f *fake) {
			f.file("/etc/cdi/x.yaml", "cdiVersion: 0.3.0\nkind: a.com/b\ndevices: [{name: a, "+
				"containerEdits: {env: [A=b]}}]\n")
		},
		id: "spec-invalid", severity: Error, subject: "/etc/cdi/x.yaml", reason: "one letter",
	},
	{
		name: "import replaces the section, containerd 1.7",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd containerd.io 1.7.28 x\n"
			f.file("/etc/containerd/config.toml", "version = 2\nimports = ['conf.d/*.toml']\n"+criV2+"enable_cdi = true\n")
			f.file("/etc/containerd/conf.d/99-nvidia.toml", dropIn)
		},
		id: "runtime-cdi-off", severity: Warning, subject: "/etc/containerd/conf.d/99-nvidia.toml",
	},
	{
		name: "import turns CDI on, containerd 1.7",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd containerd.io 1.7.28 x\n"
			f.file("/etc/containerd/config.toml", "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n")
			f.file("/etc/containerd/conf.d/9.toml", criV2+"enable_cdi = true\n")
		},
		id: "runtime-ok", severity: OK, title: "containerd 1.7.28",
	},
	{
		name: "configuration named by the unit",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd containerd.io 1.7.28 x\n"
			f.file("/etc/systemd/system/containerd.service.d/x.conf",
				"[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config /opt/c.toml\n")
			f.file("/opt/c.toml", "version = 2\n"+criV2+"enable_cdi = true\n")
		},
		id: "runtime-ok", severity: OK, title: "containerd 1.7.28",
	},
	{
		name: "containerd of Docker",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd containerd.io 1.7.28 x\n"
			f.file("/etc/containerd/config.toml", "disabled_plugins = [\"cri\"]\n")
		},
		id: "runtime-cdi-off", severity: Info, title: "without its CRI plugin",
	},
	{
		name: "Docker told to read another directory",
		plant: func(f *fake) {
			f.output["dockerd"] = "Docker version 28.3.0, build x\n"
			f.file("/etc/docker/daemon.json", `{"cdi-spec-dirs": ["/opt/cdi"]}`)
		},
		id: "runtime-dirs", severity: Warning, title: "docker 28.3.0",
		reason: "it reads /opt/cdi only, as /etc/docker/daemon.json",
		fix:    "cdi-gen generate --to /opt/cdi",
	},
	{
		name: "Docker told to read another directory, with a spec there",
		plant: func(f *fake) {
			f.output["dockerd"] = "Docker version 28.3.0, build x\n"
			f.file("/etc/docker/daemon.json", `{"cdi-spec-dirs": ["/opt/cdi"]}`)
			f.spec("/opt/cdi/rdma.dev-hca.yaml", f.newSpec(cdi.KindHCA, f.uverbs()...))
		},
		id: "runtime-ok", severity: OK, title: "docker 28.3.0",
	},
	{
		name: "podman told to read another directory",
		plant: func(f *fake) {
			f.output["podman"] = "podman version 5.6.0\n"
			f.file("/etc/containers/containers.conf.d/1.conf", "[engine]\ncdi_spec_dirs = ['/opt/cdi']\n")
		},
		id: "runtime-dirs", severity: Warning, title: "podman 5.6.0", reason: "/etc/containers/containers.conf.d/1.conf",
	},
	{
		name: "limit in the file that Docker's unit names",
		plant: func(f *fake) {
			f.output["dockerd"] = "Docker version 28.3.0, build x\n"
			f.file("/etc/docker/daemon.json", "{}")
			f.file("/opt/d.json", `{"default-ulimits": {"memlock": {"Soft": 65536, "Hard": 65536}}}`)
			f.file("/etc/systemd/system/docker.service", "[Service]\nExecStart=dockerd --config-file /opt/d.json\n")
		},
		id: "memlock-configured", severity: Warning, subject: "/opt/d.json",
	},
	{
		name: "limit that a later file lifts",
		plant: func(f *fake) {
			f.file("/etc/crio/crio.conf", "default_ulimits = [\"memlock=65536:65536\"]\n")
			f.file("/etc/crio/crio.conf.d/1.conf", "default_ulimits = [\"memlock=-1:-1\"]\n")
		},
		id: "specs-ok", severity: OK,
	},
	{
		name: "rootless Docker behind the links of rootlesskit",
		plant: func(f *fake) {
			f.host.UID, f.host.User = 1000, runtimeconf.User{UID: 1000, Home: "/home/u"}
			f.output["dockerd"] = "Docker version 28.3.0, build x\n"
			f.file("/home/u/.config/docker/daemon.json", "{}")
		},
		id: "runtime-dirs", severity: Warning, title: "docker 28.3.0", reason: "/etc/cdi: it is a symbolic link",
	},
	{
		name: "SELinux and podman", plant: func(f *fake) { selinux(f, "1", "0 0\n") },
		id: "selinux-devices", severity: Warning, reason: "EACCES", fix: "setsebool -P container_use_devices on",
	},
	{
		name: "SELinux with the boolean", plant: func(f *fake) { selinux(f, "1", "1 1\n") },
		id: "specs-ok", severity: OK,
	},
	{
		name: "SELinux without enforcement", plant: func(f *fake) { selinux(f, "0", "0 0\n") },
		id: "specs-ok", severity: OK,
	},
	{
		name: "Quadlet before the spec",
		plant: func(f *fake) {
			volatile(f)
			f.file("/etc/containers/systemd/sub/job.container", quadlet)
		},
		id: "unit-order", severity: Warning, subject: "sub/job.container",
		fix: "After=cdi-gen.service cdi-gen-watch.service\\n' > /etc/systemd/system/job.service.d/cdi-gen.conf",
	},
	{
		name: "unit of a site before the spec",
		plant: func(f *fake) {
			volatile(f)
			f.file("/etc/systemd/system/job.service", "[Unit]\nAfter=network.target\n[Service]\nExecStart=podman run \\\n "+
				"--device rdma.dev/hca=all x\n[Install]\nWantedBy=multi-user.target\n")
		},
		id: "unit-order", severity: Warning, subject: "/etc/systemd/system/job.service",
	},
	{
		name: "units that are ordered, do not start at boot, or read /etc/cdi",
		plant: func(f *fake) {
			volatile(f)
			ours := "[Unit]\nBefore=docker.service crio.service\n"
			f.file("/usr/lib/systemd/system/cdi-gen.service", ours)
			f.file("/usr/lib/systemd/system/cdi-gen.service.d/x.conf", "[Unit]\nBefore=first.service\n")
			f.file("/etc/containers/systemd/a.container", "[Unit]\nAfter=cdi-gen-watch.service\n"+quadlet)
			f.file("/etc/containers/systemd/b.container", strings.Split(quadlet, "[Install]")[0])
			f.file("/etc/containers/systemd/c.container", quadlet)
			f.file("/etc/containers/systemd/c.container.d/1.conf", "[Unit]\nAfter=docker.service\n")
			f.file("/etc/containers/systemd/d.container", quadlet)
			f.file("/etc/systemd/system/d.service.d/1.conf", "[Unit]\nAfter=multi-user.target\n")
			f.file("/etc/containers/systemd/first.container", quadlet)
			f.link("/etc/systemd/system/masked.service", "/dev/null")
		},
		id: "specs-ok", severity: OK,
	},
	{
		name:  "Quadlet and a spec in /etc/cdi",
		plant: func(f *fake) { f.file("/etc/containers/systemd/a.container", quadlet) },
		id:    "specs-ok", severity: OK,
	},
}
