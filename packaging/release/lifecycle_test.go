package release

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// manager is a package manager in a root of its own.
type manager struct {
	name                   string
	file                   func(version string) string // of a package
	init                   func(t *testing.T, root string)
	install, remove, purge func(t *testing.T, root, file string)
	verify                 func(t *testing.T, root string) string
}

func managers() []manager {
	rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	dpkg := func(t *testing.T, root string, args ...string) string {
		return tool(t, "dpkg", append([]string{"--root=" + root, "--log=/dev/null"}, args...)...)
	}
	rpm := func(t *testing.T, root string, args ...string) string {
		return tool(t, "rpm", append([]string{"--root", root}, args...)...)
	}
	erase := func(t *testing.T, root, _ string) { rpm(t, root, "-e", "cdi-gen") }
	return []manager{{
		name: "dpkg", file: func(v string) string { return "cdi-gen_" + v + "-1_" + runtime.GOARCH + ".deb" },
		init: func(t *testing.T, root string) {
			for _, d := range []string{"updates", "info", "triggers"} {
				must.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", d), 0o755))
			}
			write(t, filepath.Join(root, "var/lib/dpkg/status"), "", 0o644)
		},
		install: func(t *testing.T, root, file string) { dpkg(t, root, "--install", file) },
		remove:  func(t *testing.T, root, _ string) { dpkg(t, root, "--remove", "cdi-gen") },
		purge:   func(t *testing.T, root, _ string) { dpkg(t, root, "--purge", "cdi-gen") },
		verify:  func(t *testing.T, root string) string { return dpkg(t, root, "--verify", "cdi-gen") },
	}, {
		name: "rpm", file: func(v string) string { return "cdi-gen-" + v + "-1." + rpmArch + ".rpm" },
		init:    func(t *testing.T, root string) { rpm(t, root, "--initdb") },
		install: func(t *testing.T, root, file string) { rpm(t, root, "-U", "--nodeps", "--noplugins", file) },
		remove:  erase, purge: func(*testing.T, string, string) {},
		verify: func(t *testing.T, root string) string { return rpm(t, root, "-V", "--nodeps", "cdi-gen") },
	}}
}

// systemctl is a recorder in place of systemctl. A service is enabled if its link exists.
const systemctl = `#!/bin/sh
echo "$@" >>/systemctl.log
[ "$1" != --quiet ] || shift
command=$1
shift
for unit in "$@"; do
	link=/etc/systemd/system/multi-user.target.wants/$unit
	case $command in
	disable) rm -f "$link" ;;
	is-enabled) [ -L "$link" ] || exit 1 ;;
	esac
done
`

// newRoot is a root directory for a package manager, with a shell. With booted, systemd seems to run.
func newRoot(t *testing.T, m manager, booted bool) string {
	t.Helper()
	need(t, m.name, m.name)
	busybox := need(t, "busybox", "busybox-static")
	if os.Getuid() != 0 {
		must.NotEq(t, "true", os.Getenv("CI"), must.Sprint(m.name+" changes owners: run the tests as root"))
		t.Skip(m.name + " changes owners: run the tests as root")
	}
	root := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	data, err := os.ReadFile(busybox)
	must.NoError(t, err)
	write(t, filepath.Join(root, "bin/sh"), string(data), 0o755)
	write(t, filepath.Join(root, "bin/rm"), string(data), 0o755)
	write(t, filepath.Join(root, "dev/null"), "", 0o666)
	if booted {
		write(t, filepath.Join(root, "usr/bin/systemctl"), systemctl, 0o755)
		must.NoError(t, os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755))
	}
	m.init(t, root)
	return root
}

func write(t *testing.T, file, text string, mode fs.FileMode) {
	t.Helper()
	must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), mode)))
}

// calls returns what was asked of systemctl since the last time.
func calls(t *testing.T, root string) string {
	t.Helper()
	log := filepath.Join(root, "systemctl.log")
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, log, "", 0o644)
	return string(text)
}

// enable makes the link that systemctl enable makes.
func enable(t *testing.T, root, unit string) string {
	t.Helper()
	link := filepath.Join(root, "etc/systemd/system/multi-user.target.wants", unit)
	err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("/usr/lib/systemd/system/"+unit, link))
	must.NoError(t, err)
	return link
}

const (
	ourSpec   = "cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices: []\n"
	theirSpec = "cdiVersion: 0.3.0\nkind: nvidia.com/gpu\ndevices: []\n"
)

// TestLifecycle: installation enables nothing; an upgrade restarts what runs, and keeps the administrator's options;
// removal stops the services first and takes our specs along, and no other; a purge leaves nothing.
func TestLifecycle(t *testing.T) {
	dir, _ := packages(t)
	old := candidate(t)
	for _, m := range managers() {
		t.Run(m.name, func(t *testing.T) {
			root := newRoot(t, m, true)
			m.install(t, root, filepath.Join(old, m.file("1.2.3~rc.1")))
			test.Eq(t, "daemon-reload\n", calls(t, root), test.Sprint("the installation asked systemctl"))
			if links, _ := filepath.Glob(filepath.Join(root, "etc/systemd/system/*/*")); len(links) > 0 {
				t.Errorf("the installation enabled %q", links)
			}
			options := filepath.Join(root, "etc/default/cdi-gen")
			write(t, options, "CDI_GEN_OPTIONS=\"--memlock 4Gi\"\n", 0o644)
			link := enable(t, root, "cdi-gen.service")

			m.install(t, root, filepath.Join(dir, m.file("1.2.3")))
			checkPrograms(t, filepath.Join(root, "usr"))
			if got, want := calls(t, root), "daemon-reload\ntry-restart cdi-gen-watch.service\n"+
				"--quiet is-enabled cdi-gen.service\nrestart --no-block cdi-gen.service\n"; got != want {
				t.Errorf("the upgrade asked systemctl for\n%s\nwant\n%s", got, want)
			}
			if text, err := os.ReadFile(options); err != nil || !strings.Contains(string(text), "4Gi") {
				t.Errorf("the upgrade changed the options: %q, %v", text, err)
			}
			write(t, filepath.Join(root, "etc/cdi/rdma.dev-hca.yaml"), ourSpec, 0o644)
			write(t, filepath.Join(root, "etc/cdi/gpu.yaml"), theirSpec, 0o644)
			write(t, filepath.Join(root, "var/run/cdi/site.yaml"), ourSpec, 0o644)

			m.remove(t, root, "")
			want := "--quiet disable cdi-gen.service cdi-gen-watch.service\n" +
				"stop cdi-gen.service cdi-gen-watch.service\ndaemon-reload\n"
			test.Eq(t, want, calls(t, root), test.Sprint("the removal asked systemctl"))
			gone(t, link, filepath.Join(root, "etc/cdi/rdma.dev-hca.yaml"), filepath.Join(root, "var/run/cdi/site.yaml"))
			_, err := os.Stat(filepath.Join(root, "etc/cdi/gpu.yaml"))
			test.NoError(t, err, test.Sprint("the removal took the spec of another program"))
			m.purge(t, root, "")
			gone(t, options, filepath.Join(root, "usr/share/doc/cdi-gen"),
				filepath.Join(root, "usr/bin/rdma-hook"), filepath.Join(root, "usr/lib/systemd/system/cdi-gen.service"))
		})
	}
}

// TestRemoveAmongPlantedFiles: neither a FIFO, a device, an endless file nor any other broken file of somebody else
// keeps the package from being removed. Ours beside them is removed.
func TestRemoveAmongPlantedFiles(t *testing.T) {
	dir, _ := packages(t)
	for _, m := range managers() {
		t.Run(m.name, func(t *testing.T) {
			root := newRoot(t, m, false)
			m.install(t, root, filepath.Join(dir, m.file("1.2.3")))
			at := func(name string) string { return filepath.Join(root, "etc/cdi", name) }
			write(t, at("rdma.dev-hca.yaml"), ourSpec, 0o644)
			write(t, at("sparse.json"), "", 0o644)
			write(t, at("broken.json"), "{", 0)
			if err := errors.Join(syscall.Mkfifo(at("fifo.json"), 0o644), syscall.Mkfifo(at("rdma.dev-hca.json"), 0o644),
				syscall.Mknod(at("zero.yaml"), syscall.S_IFCHR|0o666, 1<<8|5), os.Truncate(at("sparse.json"), 10<<30),
				os.Symlink("loop.json", at("loop.json")), os.Mkdir(at("directory.yaml"), 0o755),
				os.MkdirAll(filepath.Join(root, "var/run"), 0o755),
				syscall.Mkfifo(filepath.Join(root, "var/run/cdi"), 0o644)); err != nil {
				t.Fatal(err)
			}
			m.remove(t, root, "")
			gone(t, at("rdma.dev-hca.yaml"), filepath.Join(root, "usr/bin/cdi-gen"))
			for _, name := range []string{"fifo.json", "rdma.dev-hca.json", "zero.yaml", "sparse.json", "loop.json",
				"directory.yaml", "broken.json"} {
				_, err := os.Lstat(at(name))
				test.NoError(t, err, test.Sprint("the removal took a file of somebody else"))
			}
		})
	}
}

// TestRemoveWithoutSystemd: in an image without systemctl the programs are as packaged, and the removal leaves no
// link to a unit that is gone. A missing program does not keep the package from being removed.
func TestRemoveWithoutSystemd(t *testing.T) {
	dir, _ := packages(t)
	for _, m := range managers() {
		t.Run(m.name, func(t *testing.T) {
			root := newRoot(t, m, false)
			m.install(t, root, filepath.Join(dir, m.file("1.2.3")))
			test.Eq(t, "", m.verify(t, root), test.Sprint("files that are not as packaged"))
			link := enable(t, root, "cdi-gen-watch.service")
			must.NoError(t, os.Remove(filepath.Join(root, "usr/bin/cdi-gen")))
			m.remove(t, root, "")
			m.purge(t, root, "")
			gone(t, link, filepath.Join(root, "usr/bin/rdma-hook"), filepath.Join(root, "etc/default/cdi-gen"))
		})
	}
}

// gone checks that files do not exist.
func gone(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there (%v)", file, err)
		}
	}
}
