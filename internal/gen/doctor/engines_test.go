package doctor

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func needGIDs(s *specs.Spec) {
	s.Version = "0.7.0"
	s.ContainerEdits.AdditionalGIDs = []uint32{44}
}

var engineFaults = []fault{
	{
		name:  "spec too new for podman",
		plant: func(f *fake) { f.respec(needGIDs) },
		id:    "runtime-too-old", severity: Error, subject: specPath, title: "podman 4.3.1",
		reason: "additionalGids needs CDI 0.7.0", fix: "cdi-gen generate --target podman-4.3.1 --to " + specPath,
	},
	{
		name: "spec of another too new for podman",
		plant: func(f *fake) {
			spec := f.newSpec("nvidia.com/net-rdma", f.uverbs()...)
			spec.Version = "1.0.0"
			f.spec("/etc/cdi/rdma.dev-hca-nvidia.yaml", spec)
		},
		id: "runtime-too-old", severity: Error, fix: "rm /etc/cdi/rdma.dev-hca-nvidia.yaml && cdi-gen generate --target " +
			"podman-4.3.1 --to /etc/cdi",
	},
	{
		name:  "version declared for nothing",
		plant: func(f *fake) { f.respec(func(s *specs.Spec) { s.Version = "1.0.0" }) },
		id:    "runtime-too-old", severity: Error, reason: "nothing in the spec needs more than 0.3.0",
	},
	{
		name: "podman 5.5 and /var/run/cdi",
		plant: func(f *fake) {
			f.output["podman"] = "podman version 5.5.2\n"
			f.remove(specPath)
			f.spec("/run/cdi/rdma.dev-hca.yaml", f.newSpec(cdi.KindHCA, f.uverbs()...))
		},
		id: "runtime-dirs", severity: Warning, subject: "/var/run/cdi/rdma.dev-hca.yaml", reason: "/etc/cdi only",
		fix: "--to /etc/cdi",
	},
	{
		name: "containerd without CDI",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1\n"
		},
		id: "runtime-no-cdi", severity: Warning, title: "containerd 1.6.20", reason: "upgrade",
		fix: "apt-cache policy containerd.io",
	},
	{
		name:  "podman of Ubuntu 22.04",
		plant: func(f *fake) { f.output["podman"] = "podman version 3.4.4\n" },
		id:    "runtime-no-cdi", severity: Warning, title: "podman 3.4.4", reason: "it has no CDI; upgrade to 4.1 or later",
		fix: "apt-get install podman",
	},
	{
		name:  "Docker of Debian 12",
		plant: func(f *fake) { f.output["dockerd"] = "Docker version 20.10.24+dfsg1, build 297e128\n" },
		id:    "runtime-no-cdi", severity: Warning, title: "docker 20.10.24", reason: "upgrade to 25 or later",
		fix: "apt-cache policy docker-ce",
	},
	{
		name:  "containerd 1.7 as it comes",
		plant: func(f *fake) { f.output["containerd"] = "containerd containerd.io 1.7.27 05044ec0a9a7\n" },
		id:    "runtime-cdi-off", severity: Warning, reason: "enable_cdi", fix: "systemctl restart containerd",
	},
	{
		name: "containerd 1.7 configured",
		plant: func(f *fake) {
			f.output["containerd"] = "containerd containerd.io 1.7.27 05044ec0a9a7\n"
			f.file("/etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  # enable_cdi = false\n  "+
				"enable_cdi = true\n")
		},
		id: "runtime-ok", severity: OK, title: "containerd 1.7.27 reads CDI up to 0.8.0",
	},
	{
		name:  "containerd 2 with CDI switched off",
		plant: func(f *fake) { f.file("/etc/containerd/config.toml", "version = 3\n"+criV3+"enable_cdi = false\n") },
		id:    "runtime-cdi-off", severity: Warning, title: "containerd 2.2.1",
	},
	{
		name:  "Docker 28.0 as it comes",
		plant: func(f *fake) { f.output["dockerd"] = "Docker version 28.0.1, build 068a01e\n" },
		id:    "runtime-cdi-off", severity: Warning, title: "docker 28.0.1", fix: "cdi-gen configure docker",
	},
	{
		name: "Docker 28.0 configured",
		plant: func(f *fake) {
			f.output["dockerd"] = "Docker version 28.0.1, build 068a01e\n"
			f.file("/etc/docker/daemon.json", `{"features": {"cdi": true}}`)
		},
		id: "runtime-ok", severity: OK, title: "docker 28.0.1 reads CDI up to 0.8.0",
	},
	{
		name:  "CRI-O",
		plant: func(f *fake) { f.output["crio"] = "crio version 1.31.0\nVersion:        1.31.0\n" },
		id:    "runtime-ok", severity: OK, title: "crio 1.31.0",
	},
	{
		name:  "version of nothing known",
		plant: func(f *fake) { f.output["podman"] = "podman version 1.6.4\n" },
		id:    "runtime-unknown", severity: Info, title: "podman 1.6.4", reason: "older than the oldest known version",
		fix: "podman --version",
	},
	{
		name:  "no version",
		plant: func(f *fake) { f.output["podman"] = "podman\n" },
		id:    "runtime-unknown", severity: Info, reason: "cannot be read",
	},
	{
		name:  "daemon without a program in the path",
		plant: func(f *fake) { delete(f.output, "containerd") },
		id:    "runtime-unknown", severity: Info, title: "containerd (pid 812)", fix: "/proc/812/exe --version",
	},
	{
		name:  "no runtime",
		plant: func(f *fake) { f.output = nil; f.remove("/proc/812/comm") },
		id:    "runtime-none", severity: Info,
	},
}

var otherFaults = []fault{
	{
		name: "rdmamap misses a node",
		plant: func(f *fake) {
			o := agreeing(f.t, f.machine.OpenFS())
			o.nodes["mlx5_0"] = o.nodes["mlx5_0"][:2]
			f.host.SecondOpinion = o
		},
		id: "rdmamap-differs", severity: Warning, reason: "nodes of mlx5_0 that only cdi-gen finds: /dev/infiniband/",
	},
	{
		name: "rdmamap sees another device",
		plant: func(f *fake) {
			o := agreeing(f.t, f.machine.OpenFS())
			o.nodes["ghost"] = nil
			f.host.SecondOpinion = o
		},
		id: "rdmamap-differs", severity: Warning, reason: "only rdmamap finds: ghost",
	},
	{
		name: "rdmamap agrees", plant: func(*fake) {},
		id: "rdmamap-agrees", severity: OK, title: "9 devices",
	},
	{
		name: "closed NVIDIA driver",
		plant: func(f *fake) {
			f.sys("module/nvidia/version", "535.1\n")
			f.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\n")
		},
		id: "gpu-peer-missing", severity: Warning, title: "8 NVIDIA GPUs", fix: "modprobe nvidia_peermem",
	},
	{
		name: "open NVIDIA driver",
		plant: func(f *fake) {
			f.sys("module/nvidia/version", "575.1\n")
			f.file("/proc/driver/nvidia/version", openModule)
			f.file("/boot/config-"+release, "# a comment\nCONFIG_PCI_P2PDMA=y\n")
		},
		id: "gpu-peer-ok", severity: OK, title: "dma-buf",
	},
	{
		name: "open NVIDIA driver, kernel without P2PDMA",
		plant: func(f *fake) {
			f.sys("module/nvidia/version", "575.1\n")
			f.file("/proc/driver/nvidia/version", openModule)
			var config bytes.Buffer
			w := gzip.NewWriter(&config)
			if _, err := w.Write([]byte("# CONFIG_PCI_P2PDMA is not set\n")); err != nil || w.Close() != nil {
				f.t.Fatal(err)
			}
			f.file("/proc/config.gz", config.String())
		},
		id: "gpu-peer-missing", severity: Warning, title: "8 NVIDIA GPUs", reason: "without CONFIG_PCI_P2PDMA",
	},
	{
		name: "nvidia_peermem",
		plant: func(f *fake) {
			f.sys("module/nvidia/version", "535.1\n")
			f.sys("module/nvidia_peermem/version", "535.1\n")
		},
		id: "gpu-peer-ok", severity: OK, title: "nvidia_peermem",
	},
	{
		name: "nv_peer_mem",
		plant: func(f *fake) {
			f.sys("module/nvidia/version", "470.1\n")
			f.sys("kernel/mm/memory_peers/nv_mem/version", "1.3\n")
		},
		id: "gpu-peer-ok", severity: OK, title: "nv_peer_mem",
	},
	{
		name: "AMD GPU",
		plant: func(f *fake) {
			f.sys("module/amdgpu/version", "6.1\n")
			f.sys("bus/pci/devices/0000:e1:00.0/vendor", "0x1002\n")
			f.sys("bus/pci/devices/0000:e1:00.0/class", "0x120000\n")
			f.file("/lib/modules/"+release+"/config", "CONFIG_PCI_P2PDMA=y\n")
		},
		id: "gpu-peer-ok", severity: OK, title: "1 AMD GPU",
	},
}

const openModule = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.1\n"

// What cannot be looked at is said, and is no finding.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		name, what, reason string
		plant              func(*fake)
	}{
		{"version", "version of podman", "run podman --version: exit status 125",
			func(f *fake) { f.failing["podman"] = errors.New("exit status 125") }},
		{"other host", "versions of container runtimes", "on the host itself only", func(f *fake) { f.host.Local = false }},
		{"no dev", "device nodes", "/dev is not below the host root", func(f *fake) {
			for name := range f.root {
				if name == "dev" || len(name) > 4 && name[:4] == "dev/" {
					delete(f.root, name)
				}
			}
		}},
		{"no rdmamap", "rdmamap", "roots are global",
			func(f *fake) { f.host.NoSecondOpinion = errors.New("its roots are global") }},
		{"rdmamap fails", "rdmamap", "no luck", func(f *fake) { f.host.SecondOpinion = opinion{err: errors.New("no luck")} }},
		{"dangling spec", "/etc/cdi/gone.json", "file does not exist",
			func(f *fake) { f.link("/etc/cdi/gone.json", "../nowhere.json") }},
		{"loop", "/etc/cdi/loop.json", "too many levels", func(f *fake) { f.link("/etc/cdi/loop.json", "loop.json") }},
		{"mounts", "mounts of the host (is the hook's directory noexec?)", "/proc/self/mountinfo",
			func(f *fake) { f.remove("/proc/self/mountinfo") }},
		{"hidden processes", "processes of other users, and their containers", "/proc/1/comm", func(f *fake) {
			f.remove("/proc/1/comm") // as with hidepid=2
		}},
		{"kernel without its configuration", "peer memory of 8 NVIDIA GPUs", "CONFIG_PCI_P2PDMA", func(f *fake) {
			f.sys("module/nvidia/version", "575.1\n")
			f.file("/proc/driver/nvidia/version", openModule)
		}},
		{"old kernel", "peer memory of 8 NVIDIA GPUs", "older than 5.12", func(f *fake) {
			f.sys("module/nvidia/version", "575.1\n")
			f.file("/proc/driver/nvidia/version", openModule)
			f.file(osrelease, "5.4.0-1-generic\n")
			f.file("/boot/config-5.4.0-1-generic", "CONFIG_PCI_P2PDMA=y\n")
			for _, name := range []string{"modules.alias", "modules.dep"} {
				f.put("/lib/modules/5.4.0-1-generic/"+name, f.root["lib/modules/"+release+"/"+name])
			}
		}},
		{"GeForce", "peer memory of 0000:e1:00.0", "compare ib_write_bw", func(f *fake) { // class of an RTX 3090, and of GB10
			f.sys("module/nvidia/version", "575.1\n")
			f.sys("module/nvidia_peermem/version", "575.1\n")
			f.sys("bus/pci/devices/0000:e1:00.0/vendor", "0x10de\n")
			f.sys("bus/pci/devices/0000:e1:00.0/class", "0x030000\n")
		}},
	} {
		f := newFake(t, "hgx-h100")
		c.plant(f)
		r := f.diagnose()
		if got := troubles(r); len(got) > 0 {
			t.Errorf("%s: %v", c.name, got)
		}
		if len(r.Unseen) == 0 {
			t.Errorf("%s: nothing is unseen", c.name)
			continue
		}
		text := render(t, r)
		if i := indexUnseen(r, c.what); i < 0 || !strings.Contains(r.Unseen[i].Reason, c.reason) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

func indexUnseen(r *Report, what string) int {
	return slices.IndexFunc(r.Unseen, func(u Unseen) bool { return u.What == what })
}
