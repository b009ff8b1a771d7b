package doctor

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
)

const eightMiB = "8388608"

const podmanService = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/podman.service\n"

func dropHook(s *specs.Spec) { s.ContainerEdits.Hooks = nil }

var memlockFaults = []fault{
	{
		name:  "daemon with a small limit and no hook",
		plant: func(f *fake) { f.limits("812", eightMiB, eightMiB); f.respec(dropHook) },
		id:    "memlock-low", severity: Warning, subject: "containerd (pid 812)", title: "8 MiB", reason: "ENOMEM",
		fix: "cdi-gen generate",
	},
	{
		name: "hook that raises to no more",
		plant: func(f *fake) {
			f.limits("812", eightMiB, eightMiB)
			f.respec(func(s *specs.Spec) { s.ContainerEdits.Hooks[0].Args[2] = "4Mi" })
		},
		id: "memlock-low", severity: Warning,
	},
	{
		name:  "daemon with a small limit and the hook",
		plant: func(f *fake) { f.limits("812", eightMiB, eightMiB) },
		id:    "memlock-by-hook", severity: Info, title: "8 MiB of locked memory, and with the hook unlimited",
		reason: "exec sessions", fix: "/etc/systemd/system/containerd.service.d/memlock.conf",
	},
	{
		name:  "session with a small limit and the hook",
		plant: func(f *fake) { f.limits("self", eightMiB, "unlimited"); f.host.UID = 1000 },
		id:    "memlock-by-hook", severity: Info, subject: "podman run from this session", fix: "ulimit -l unlimited",
	},
	{
		name:  "rootless session with a small hard limit",
		plant: func(f *fake) { f.limits("self", "65536", eightMiB); f.host.UID = 1000 },
		id:    "memlock-clamped", severity: Warning, title: "8 MiB", reason: "without it 64 KiB", fix: "user@.service.d",
	},
	{
		name: "root's daemon without the capability, as in a container or with CapabilityBoundingSet",
		plant: func(f *fake) {
			f.limits("812", eightMiB, eightMiB)
			f.replace("/proc/812/status", "CapEff:\t"+allCapabilities, "CapEff:\t00000000a80425fb")
		},
		id: "memlock-clamped", severity: Warning, subject: "containerd (pid 812)", title: "8 MiB",
		reason: "lacks CAP_SYS_RESOURCE", fix: "containerd.service.d",
	},
	{
		name: "root of another user namespace",
		plant: func(f *fake) {
			f.limits("812", eightMiB, eightMiB)
			f.file("/proc/812/uid_map", "0 100000 65536\n")
		},
		id: "memlock-clamped", severity: Warning, subject: "containerd (pid 812)", title: "8 MiB",
	},
	{
		name: "hook that said that it could not",
		plant: func(f *fake) {
			f.limits("812", eightMiB, eightMiB)
			f.respec(func(s *specs.Spec) {
				s.ContainerEdits.Hooks[0].Args = append(s.ContainerEdits.Hooks[0].Args, "--report", "/run/rdma.dev/reports")
			})
			for name, text := range map[string]string{
				"old.json": `{"reportVersion":1,"id":"0123456789abcdef","time":"2026-11-01T08:00:00Z",` +
					`"want":"unlimited","outcome":"raised"}`,
				"new.json": `{"reportVersion":1,"id":"fedcba9876543210","time":"2026-11-02T08:00:00Z",` +
					`"want":"unlimited","outcome":"clamped","message":"need CAP_SYS_RESOURCE to raise the hard limit"}`,
				"bad.json": `{`, "x.tmp": `{"time":"2027-01-01T00:00:00Z"}`,
			} {
				f.file("/run/rdma.dev/reports/"+name, text)
			}
		},
		id: "memlock-clamped", severity: Warning, subject: "container fedcba987654", title: "the last container",
		reason: "2026-11-02 08:00:00 UTC it said: need CAP_SYS_RESOURCE", fix: "containerd.service.d",
	},
	{
		name: "a container that can use its HCA",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) {
				s.ContainerEdits.Hooks[0].Args = append(s.ContainerEdits.Hooks[0].Args, "--report", "/run/rdma.dev/reports")
			})
			f.file("/run/rdma.dev/reports/a.json", `{"reportVersion":1,"id":"fedcba9876543210",`+
				`"time":"2026-11-02T08:00:00Z","want":"unlimited","outcome":"raised","checks":[`+
				`{"kind":"provider","hca":"mlx5_0","result":"ok","message":"fine"},{"kind":"memlock","result":"ok","message":"fine"},`+
				`{"kind":"permission","hca":"mlx5_0","result":"ok","message":"fine"}]}`)
		},
		id: "container-ok", severity: OK, subject: "container fedcba987654", title: "can use",
	},
	{
		name: "a container that cannot use its HCA",
		plant: func(f *fake) {
			f.respec(func(s *specs.Spec) {
				s.ContainerEdits.Hooks[0].Args = append(s.ContainerEdits.Hooks[0].Args, "--report", "/run/rdma.dev/reports")
			})
			f.file("/run/rdma.dev/reports/a.json", `{"reportVersion":1,"id":"fedcba9876543210",`+
				`"time":"2026-11-02T08:00:00Z","want":"unlimited","outcome":"raised","checks":[`+
				`{"kind":"permission","hca":"mlx5_0","result":"ok","message":"fine"},`+
				`{"kind":"provider","hca":"mlx5_0","result":"unusable","message":"no provider mlx5","remedy":"install it"}]}`)
		},
		id: "container-unusable", severity: Warning, subject: "container fedcba987654", title: "provider",
		reason: "2026-11-02 08:00:00 UTC the hook said: no provider mlx5: install it", fix: "--userspace host",
	},
	{
		name: "rootless daemon",
		plant: func(f *fake) {
			f.process(900, "podman", eightMiB, eightMiB, 1000)
			f.file("/proc/900/cgroup", podmanService)
			f.process(901, "podman", "1", "1", 1000)
			f.file("/proc/901/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n")
		},
		id: "memlock-clamped", severity: Warning, subject: "podman (pid 900)",
	},
	{
		name: "dockerd without containerd",
		plant: func(f *fake) {
			f.remove("/proc/812/comm")
			f.process(900, "dockerd", eightMiB, eightMiB, 0)
			f.output["dockerd"] = "Docker version 28.3.1, build 38b7060\n"
		},
		id: "memlock-by-hook", severity: Info, subject: "dockerd (pid 900)", fix: "docker.service.d",
	},
	{
		name: "daemon not restarted",
		plant: func(f *fake) {
			f.limits("812", eightMiB, eightMiB)
			f.file("/lib/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=64K\n")
			f.file("/etc/systemd/system/containerd.service.d/memlock.conf", "[Service]\nLimitMEMLOCK=infinity\n")
		},
		id: "memlock-restart", severity: Warning, subject: "/etc/systemd/system/containerd.service.d/memlock.conf",
		title: "says unlimited", fix: "systemctl restart containerd.service",
	},
	{
		name: "Docker configured with a small limit",
		plant: func(f *fake) {
			f.file("/etc/docker/daemon.json", `{"default-ulimits":{"memlock":{"Name":"memlock","Hard":65536,"Soft":65536}}}`)
		},
		id: "memlock-configured", severity: Warning, subject: "/etc/docker/daemon.json",
		title: "Docker is configured to give containers 64 KiB", reason: "runc",
	},
	{
		name: "podman configured with a small limit",
		plant: func(f *fake) {
			f.file("/etc/containers/containers.conf", "[containers]\n# default_ulimits = [\"memlock=1:1\"]\n")
			f.file("/etc/containers/containers.conf.d/50-limits.conf",
				"[containers]\ndefault_ulimits = [\"nofile=1:2\", \"memlock=65536:65536\"]\n")
		},
		id: "memlock-configured", severity: Warning, subject: "50-limits.conf", fix: "grep -n memlock",
	},
	{
		name: "configured without a limit",
		plant: func(f *fake) {
			f.file("/etc/docker/daemon.json", `{"default-ulimits":{"memlock":{"Soft":-1,"Hard":-1}}}`)
			f.file("/etc/crio/crio.conf.d/10-rdma.conf", "default_ulimits = [\n  \"memlock=-1:-1\",\n]\n")
		},
		id: "memlock-ok", severity: OK,
	},
	{
		name:  "limit above the memory of the host",
		plant: func(f *fake) { f.limits("812", "1099511627776", "1099511627776"); f.respec(dropHook) },
		id:    "memlock-ok", severity: OK, title: "1024 GiB",
	},
	{
		name:  "spec without a hook",
		plant: func(f *fake) { f.respec(dropHook) },
		id:    "hook-absent", severity: Info, subject: specPath,
	},
}

func TestParseUnitSize(t *testing.T) {
	for in, want := range map[string]args.Size{
		"infinity": args.Unlimited, "65536": 65536, "64K": 65536, "8M:infinity": 8 << 20, "1G": 1 << 30, " 2T ": 2 << 40,
		"infinity:infinity": args.Unlimited,
	} {
		if got, ok := parseUnitSize(in); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "K", "-1", "8Q", "99999999999E", "18446744073709551615", "eight"} {
		if got, ok := parseUnitSize(in); ok {
			t.Errorf("%q: got %d", in, got)
		}
	}
}

func TestParseLimits(t *testing.T) {
	for _, in := range []string{"", "Max cpu time unlimited unlimited seconds\n", "Max locked memory\n",
		"Max locked memory  many  many  bytes\n"} {
		test.Nil(t, parseLimits(in), test.Sprintf("%q", in))
	}
	got := parseLimits("Max locked memory         65536                unlimited            bytes     \n")
	if got == nil || got.soft != 65536 || got.hard != args.Unlimited {
		t.Errorf("got %+v", got)
	}
}

// The unit of the first directory counts, and drop-ins apply by name over all
// directories.
func TestUnitLimit(t *testing.T) {
	f := newFake(t, "none")
	f.file("/usr/lib/systemd/system/crio.service", "[Service]\nLimitMEMLOCK=1G\n")
	f.file("/usr/lib/systemd/system/crio.service.d/90-low.conf", "[Service]\nLimitMEMLOCK=2G\n")
	f.file("/etc/systemd/system/crio.service.d/50-own.conf", "[Service]\nLimitMEMLOCK=3G\n")
	f.file("/etc/systemd/system/crio.service.d/README", "LimitMEMLOCK=4G\n")
	for _, step := range []struct {
		hide string
		want args.Size
		file string
	}{
		{"", 2 << 30, "/usr/lib/systemd/system/crio.service.d/90-low.conf"},
		{"/etc/systemd/system/crio.service.d/90-low.conf", 3 << 30, "/etc/systemd/system/crio.service.d/50-own.conf"},
		{"/etc/systemd/system/crio.service", 3 << 30, "/etc/systemd/system/crio.service.d/50-own.conf"},
	} {
		f.host.Root = f.root
		if step.hide != "" {
			f.file(step.hide, "[Service]\n")
		}
		host := &reader{Host: &f.host}
		got, file := host.unitLimit("crio.service")
		if got != step.want || file != step.file {
			t.Errorf("after %q: got %d from %s, want %d from %s", step.hide, got, file, step.want, step.file)
		}
	}
}

// TestForeignDaemon: what a user, or a container, calls containerd is none of the host's.
func TestForeignDaemon(t *testing.T) {
	for name, plant := range map[string]func(f *fake){
		"a user's": func(f *fake) { f.process(900, "containerd", "1", "1", 1000) },
		"a container's": func(f *fake) {
			f.process(900, "crio", "1", "1", 0)
			f.replace("/proc/900/status", "NSpid:\t900", "NSpid:\t900\t7")
		},
		"one without a status": func(f *fake) { f.process(900, "dockerd", "1", "1", 0); f.remove("/proc/900/status") },
	} {
		f := newFake(t, "roce-lag")
		plant(f)
		for _, finding := range f.diagnose().Findings {
			test.StrNotContains(t, fmt.Sprint(finding), "900", test.Sprintf("%s", name))
		}
	}
	// A service of podman is a user's own, but root must not be sent to run its program.
	f := newFake(t, "roce-lag")
	f.process(900, "podman", eightMiB, eightMiB, 1000)
	f.file("/proc/900/cgroup", podmanService)
	delete(f.output, "podman")
	for _, finding := range f.diagnose().Findings {
		test.StrNotContains(t, finding.Fix, "/proc/900", test.Sprint("root is to run a user's program"))
	}
}
