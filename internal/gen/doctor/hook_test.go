package doctor

import (
	"debug/elf"
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"tags.cncf.io/container-device-interface/specs-go"
)

var hookFaults = []fault{
	{
		name:  "hook not there",
		plant: func(f *fake) { f.remove(hookPath) },
		id:    "hook-missing", severity: Error, subject: specPath, reason: "fails to start",
		fix: "install -m 0755 RDMA_HOOK /usr/bin/rdma-hook\ncdi-gen generate --to " + specPath,
	},
	{
		name:  "hook not executable",
		plant: func(f *fake) { f.chmod(hookPath, 0o644) },
		id:    "hook-not-executable", severity: Error, reason: "-rw-r--r--", fix: "chmod 0755 " + hookPath,
	},
	{
		name: "directory for a hook",
		plant: func(f *fake) {
			f.remove(hookPath)
			f.dir(hookPath)
		},
		id: "hook-not-executable", severity: Error,
	},
	{
		name: "hook on a noexec mount",
		plant: func(f *fake) {
			f.program("/run/rdma/rdma-hook", elf.EM_X86_64, elf.PT_LOAD)
			f.respec(func(s *specs.Spec) { s.ContainerEdits.Hooks[0].Path = "/var/run/rdma/rdma-hook" })
		},
		id: "hook-noexec", severity: Error, subject: "/var/run/rdma/rdma-hook", reason: "/run is mounted noexec",
		fix: "--hook-path /usr/bin/rdma-hook",
	},
	{
		name: "hook in a directory of a user's",
		plant: func(f *fake) {
			f.program("/home/user/bin/rdma-hook", elf.EM_X86_64, elf.PT_LOAD)
			f.put("/home/user", &fstest.MapFile{Mode: fs.ModeDir | 0o755, Sys: &syscall.Stat_t{Uid: 1000}})
			f.put("/home/user/bin", &fstest.MapFile{Mode: fs.ModeDir | 0o775, Sys: &syscall.Stat_t{Gid: 50}})
			f.respec(func(s *specs.Spec) { s.ContainerEdits.Hooks[0].Path = "/home/user/bin/rdma-hook" })
		},
		id: "hook-replaceable", severity: Error, subject: specPath,
		reason: "runs it as root, and /home/user is owned by user 1000, /home/user/bin can be written by its group 50",
		fix:    "chown -h root /home/user\nchmod go-w /home/user/bin",
	},
	{
		name:  "hook for another processor",
		plant: func(f *fake) { f.program(hookPath, elf.EM_AARCH64, elf.PT_LOAD) },
		id:    "hook-arch", severity: Error, reason: "EM_AARCH64, this host is EM_X86_64",
	},
	{
		name:  "dynamic hook",
		plant: func(f *fake) { f.program(hookPath, elf.EM_X86_64, elf.PT_INTERP) },
		id:    "hook-dynamic", severity: Warning, fix: "CGO_ENABLED=0",
	},
	{
		name: "versioned hook and a script of somebody else",
		plant: func(f *fake) {
			f.program("/opt/rdma-dev/bin/rdma-hook-v1.0.0", elf.EM_X86_64, elf.PT_LOAD)
			f.file("/opt/other/hook.sh", "#!/bin/sh\n")
			f.chmod("/opt/other/hook.sh", 0o755)
			f.respec(func(s *specs.Spec) {
				s.ContainerEdits.Hooks[0].Path = "/opt/rdma-dev/bin/rdma-hook-v1.0.0"
				s.Devices[0].ContainerEdits.Hooks = []*specs.Hook{{HookName: "prestart", Path: "/opt/other/hook.sh"}}
			})
		},
		id: "hook-ok", severity: OK, title: "2 hooks present",
	},
}

func TestFindNoexec(t *testing.T) {
	const table = `1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:2 / /run rw,nosuid,noexec shared:1 - tmpfs tmpfs rw
3 2 0:3 / /run/exec rw - tmpfs tmpfs rw
4 1 0:4 / /mnt/a\040b rw,noexec - tmpfs tmpfs rw
5 1 0:5 / /opt rw,noexec - tmpfs tmpfs rw
6 1 0:6 / /opt rw - tmpfs tmpfs rw
garbage
`
	for name, want := range map[string]string{
		"/usr/bin/rdma-hook": "", "/run/hook": "/run", "/run/exec/hook": "", "/runaway/hook": "", "/mnt/a b/hook": "/mnt/a b",
		"/opt/hook": "",
	} {
		test.Eq(t, want, findNoexec(table, name), test.Sprintf("%s", name))
	}
}
