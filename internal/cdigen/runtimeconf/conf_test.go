package runtimeconf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

func lookup(t testing.TB, name string) runtimes.Target {
	t.Helper()
	target, err := runtimes.Lookup(name)
	must.NoError(t, err)
	return target
}

const (
	main   = "etc/containerd/config.toml"
	v2     = "version = 2\n"
	v3     = "version = 3\n"
	cri1   = "[plugins.cri]\n"
	cri2   = "[plugins.'io.containerd.grpc.v1.cri']\n"
	cri3   = "[plugins.'io.containerd.cri.v1.runtime']\n"
	on     = "enable_cdi = true\n"
	off    = "enable_cdi = false\n"
	all    = "imports = ['/etc/containerd/conf.d/*.toml']\n"
	nvidia = "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n"
)

// broken is the answer for a configuration with which containerd does not start.
const broken = "broken"

// containerdCases are configurations with what containerd 1.7.28 and 2.2.1 say of CDI, as the programs in testdata
// print it.
var containerdCases = []struct {
	name  string
	files map[string]string
	// in17 and in22 are the values of enable_cdi: true, false, "" for the default, or broken.
	in17, in22 string
}{
	{"nothing", nil, "", ""},
	{"main", map[string]string{main: v2 + cri2 + on}, "true", "true"},
	{"main off", map[string]string{main: v2 + cri2 + off}, "false", "false"},
	{"main of version 3", map[string]string{main: v3 + cri3 + off}, broken, "false"},
	{"version 3 with the old section", map[string]string{main: v3 + cri2 + off}, broken, ""},
	{"version 2 with the new section", map[string]string{main: v2 + cri3 + off}, "", "false"},
	{"both sections", map[string]string{main: v2 + cri2 + off + cri3 + on}, "false", "true"},
	{"version 1", map[string]string{main: cri1 + on}, "true", ""},
	{"version 1 that says so", map[string]string{main: "version = 1\n" + cri1 + on}, "true", ""},
	{"import replaces the section", map[string]string{main: v2 + all + cri2 + on,
		"etc/containerd/conf.d/99.toml": v2 + nvidia}, "", "true"},
	{"import turns it on", map[string]string{main: v2 + all, "etc/containerd/conf.d/99.toml": cri2 + on}, "true", "true"},
	{"import turns it off", map[string]string{main: v2 + all + cri2 + on,
		"etc/containerd/conf.d/99.toml": v2 + cri2 + off},
		"false", "false"},
	{"import of another plugin", map[string]string{main: v2 + all + cri2 + on,
		"etc/containerd/conf.d/99.toml": v2 + "[plugins.'io.containerd.gc.v1.scheduler']\nx = 1\n"}, "true", "true"},
	{"the last of two imports", map[string]string{main: v2 + all, "etc/containerd/conf.d/1.toml": v2 + cri2 + on,
		"etc/containerd/conf.d/2.toml": v2 + cri2 + "x = 1\n"}, "", "true"},
	{"the imports in their order", map[string]string{main: v2 + "imports = ['b.toml', 'a.toml']\n",
		"etc/containerd/a.toml": v2 + cri2 + off, "etc/containerd/b.toml": v2 + cri2 + on}, "false", "false"},
	{"relative pattern", map[string]string{main: v2 + "imports = ['./conf.d/../conf.d/*.toml']\n",
		"etc/containerd/conf.d/1.toml": cri2 + on}, "true", "true"},
	{"pattern in a directory", map[string]string{main: v2 + "imports = ['c*/x/*.toml']\n",
		"etc/containerd/c1/x/1.toml": cri2 + off, "etc/containerd/c2/x/1.toml": cri2 + on}, "true", "true"},
	{"pattern without a match", map[string]string{main: v2 + all + cri2 + on}, "true", "true"},
	{"missing import", map[string]string{main: v2 + "imports = ['/etc/containerd/x.toml']\n" + cri2 + on}, broken, broken},
	{"import of an import", map[string]string{main: v2 + "imports = ['a.toml', 'b.toml']\n",
		"etc/containerd/a.toml":     v2 + "imports = ['sub/c.toml']\n" + cri2 + off,
		"etc/containerd/b.toml":     v2 + cri2 + off,
		"etc/containerd/sub/c.toml": cri2 + on}, "true", "true"},
	{"circle", map[string]string{main: v2 + "imports = ['a.toml']\n" + cri2 + off,
		"etc/containerd/a.toml": "imports = ['config.toml']\n" + cri2 + on}, "true", "true"},
	{"question mark is a name", map[string]string{main: v2 + "imports = ['?.toml']\n" + cri2 + on,
		"etc/containerd/a.toml": cri2 + off}, broken, broken},
	{"import of version 3 in version 2", map[string]string{main: v2 + all + cri2 + on,
		"etc/containerd/conf.d/1.toml": v3 + cri3 + off}, broken, "false"},
	{"import of version 2 in version 3", map[string]string{main: v3 + all + cri3 + on,
		"etc/containerd/conf.d/1.toml": v2 + cri2 + off}, "false", "true"},
	{"import of version 1 in version 2", map[string]string{main: v2 + all, "etc/containerd/conf.d/1.toml": cri1 + off},
		broken, "false"},
	{"main without a version", map[string]string{main: all, "etc/containerd/conf.d/1.toml": v2 + cri2 + on}, "true",
		"true"},
	{"link to a file", map[string]string{main: v2 + all, "etc/containerd/conf.d/1.toml": "-> /opt/x.toml",
		"opt/x.toml": cri2 + on}, "true", "true"},
	{"no TOML", map[string]string{main: v2 + "x"}, broken, broken},
	{"import is no TOML", map[string]string{main: v2 + all, "etc/containerd/conf.d/1.toml": "x"}, broken, broken},
	{"header without quotes around the name", map[string]string{main: v2 + "[plugins]\n[plugins.\"io.containerd.grpc.v1" +
		".cri\"]\nenable_cdi=true"}, "true", "true"},
	{"sub-table before its table", map[string]string{main: v2 + nvidia + cri2 + on}, "true", "true"},
	{"inline table", map[string]string{main: v2 + "plugins = {'io.containerd.grpc.v1.cri' = {enable_cdi = true}}\n"},
		"true", "true"},
	{"dotted key", map[string]string{main: v2 + "plugins.'io.containerd.grpc.v1.cri'.enable_cdi = true\n"}, "true",
		"true"},
}

// hostOf makes a host with files. A value "-> x" is a link.
func hostOf(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	fixture.WriteFiles(t, root, files)
	return root
}

// TestContainerd: each release merges its files in its own way.
func TestContainerd(t *testing.T) {
	for _, c := range containerdCases {
		host := runtimeconf.Host{ReadLinkFS: hostfs.DirFS(hostOf(t, c.files))}
		for release, want := range map[string]string{"1.7.28": c.in17, "2.2.1": c.in22} {
			target := lookup(t, "containerd-"+release)
			config, err := runtimeconf.Read(host, target, runtimeconf.User{})
			got := fmt.Sprint(config.On)
			if errors.Is(err, runtimeconf.ErrBroken) {
				got = broken
			} else if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = fmt.Sprint(target.OnByDefault)
			}
			test.Eq(t, want, got,
				test.Sprintf("%s, containerd %s: %s, want %s (%v)", c.name, release, got, want, err))
		}
		// From 2.3 on there is nothing to switch off.
		if config, err := runtimeconf.Read(host, lookup(t, "containerd-2.4"), runtimeconf.User{}); err == nil && !config.On {
			t.Errorf("%s: containerd 2.4 has CDI off", c.name)
		}
	}
}

// TestContainerdItself: the table above is what containerd's own code says.
func TestContainerdItself(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("builds code of containerd 1.7 and 2.2: TEST_LONG=1")
	}
	needs.Root(t, "containerd's code knows no host root: chroot")
	programs := map[string]string{"1.7.28": build(t, "containerd1"), "2.2.1": build(t, "containerd2")}
	for _, c := range containerdCases {
		if len(c.files) == 0 {
			continue // containerd does not read a missing file
		}
		root := hostOf(t, c.files)
		for release, want := range map[string]string{"1.7.28": c.in17, "2.2.1": c.in22} {
			data, err := os.ReadFile(programs[release])
			if err == nil {
				err = os.WriteFile(filepath.Join(root, "program"), data, 0o755)
			}
			must.NoError(t, err)
			out, err := exec.Command("chroot", root, "/program", "/"+main).Output()
			got := broken
			if err == nil {
				var section map[string]any
				must.NoError(t, json.Unmarshal(out, &section))
				if got = fmt.Sprint(section["enable_cdi"]); got == "<nil>" {
					got = ""
				}
			}
			test.Eq(t, want, got,
				test.Sprintf("%s: containerd %s itself says %q, and the table %q (%v)", c.name, release, got, want, err))
		}
	}
}

// build builds a program of testdata, which is a module of its own.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir, cmd.Env = filepath.Join("testdata", name), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		needs.Missing(t, fmt.Errorf("build %s: %w: %s", name, err, out))
	}
	return program
}

// TestDirs: the directories that each runtime reads, by its own files.
func TestDirs(t *testing.T) {
	user := runtimeconf.User{UID: 1000, Home: "/home/u", RuntimeDir: "/run/user/1000"}
	root := runtimeconf.User{}
	const cio = "[crio.runtime]\ncdi_spec_dirs = ['/opt/cdi']\n"
	const unit = "[Service]\nExecStart=/usr/bin/dockerd --cdi-spec-dir /unit\n"
	proc := func(uid, nspid, args string) map[string]string {
		return map[string]string{
			"proc/7/comm": "dockerd\n", "proc/7/status": "Uid:\t" + uid + "\t" + uid + "\nNSpid:\t" + nspid + "\n",
			"proc/7/cmdline": args, "lib/systemd/system/docker.service": unit,
			"proc/7/environ":                 "XDG_CONFIG_HOME=/home/u/conf\x00",
			"home/u/conf/docker/daemon.json": `{"cdi-spec-dirs": ["/own"]}`,
		}
	}
	for _, c := range []struct {
		name, target string
		user         runtimeconf.User
		files        map[string]string
		want         []string
		from         string
	}{
		{"containerd", "containerd-1.7", root, map[string]string{main: v2 + cri2 + on + "cdi_spec_dirs = ['/opt/cdi']\n"},
			[]string{"/opt/cdi"}, "/" + main},
		{"containerd 2.4, old file", "containerd-2.4", root,
			map[string]string{main: v2 + cri2 + "cdi_spec_dirs = ['/opt/cdi']"}, []string{"/opt/cdi"}, "/" + main},
		{"containerd 2.4, later file", "containerd-2.4", root, map[string]string{
			main:                           v3 + all + cri3 + "cdi_spec_dirs = ['/opt/cdi']\n",
			"etc/containerd/conf.d/1.toml": v2 + cri2 + "cdi_spec_dirs = ['/a', '/b']\n"}, []string{"/a", "/b"},
			"/etc/containerd/conf.d/1.toml"},
		{"Docker", "docker-28.3", root, map[string]string{"etc/docker/daemon.json": `{"cdi-spec-dirs": ["/opt/cdi"]}`},
			[]string{"/opt/cdi"}, "/etc/docker/daemon.json"},
		{"Docker, file of the unit", "docker-28.3", root, map[string]string{"opt/d.json": `{"cdi-spec-dirs": ["/opt/cdi"]}`,
			"lib/systemd/system/docker.service": "[Service]\nExecStart=/usr/bin/dockerd \\\n  --config-file=/opt/d.json\n"},
			[]string{"/opt/cdi"}, "/opt/d.json"},
		{"Docker, flag", "docker-28.3", root, map[string]string{
			"lib/systemd/system/docker.service": "[Service]\nExecStart=/usr/bin/dockerd --cdi-spec-dir /a --cdi-spec-dir=/b\n"},
			[]string{"/a", "/b"}, "docker.service"},
		{"Docker that runs", "docker-28.3", root, proc("0", "7", "dockerd\x00--cdi-spec-dir\x00/run"), []string{"/run"},
			"the running dockerd"},
		{"Docker of a container", "docker-28.3", root, proc("0", "7\t1", "dockerd\x00--cdi-spec-dir\x00/run"),
			[]string{"/unit"}, "docker.service"},
		{"Docker of another user", "docker-28.3", root, proc("1000", "7", "dockerd"), []string{"/unit"}, "docker.service"},
		{"rootless Docker that runs", "docker-28.3", user, proc("1000", "7", "dockerd"), []string{"/own"},
			"/home/u/conf/docker/daemon.json"},
		{"CRI-O that runs", "crio-1.31", root, map[string]string{"etc/crio/crio.conf": cio, "proc/7/comm": "crio",
			"proc/7/status": "Uid:\t0\t0\nNSpid:\t7\n", "proc/7/cmdline": "crio",
			"proc/7/environ": "A=b\x00CONTAINER_CDI_SPEC_DIRS=/a,/b\x00"}, []string{"/a", "/b"}, "the running crio"},
		{"rootful Docker of a user", "docker-29", user, nil, []string{"/etc/cdi", "/var/run/cdi"}, ""},
		{"rootless Docker 28", "docker-28", user, map[string]string{"home/u/.config/docker/daemon.json": "{}"},
			[]string{"/etc/cdi", "/var/run/cdi"}, ""},
		{"rootless Docker 29", "docker-29", user, map[string]string{"home/u/.config/docker/daemon.json": "{}"},
			[]string{"/etc/cdi", "/var/run/cdi", "/home/u/.config/cdi", "/run/user/1000/cdi"}, ""},
		{"podman 5.4 has no setting", "podman-5.4", root, map[string]string{
			"etc/containers/containers.conf": "[engine]\ncdi_spec_dirs = ['/opt/cdi']\n"},
			[]string{"/etc/cdi", "/var/run/cdi"}, ""},
		{"podman", "podman-5.6", root, map[string]string{
			"usr/share/containers/containers.conf": "[engine]\ncdi_spec_dirs = ['/x']\n",
			"etc/containers/containers.conf":       "[engine]\ncdi_spec_dirs = ['/opt/cdi']\n"}, []string{"/opt/cdi"},
			"/etc/containers/containers.conf"},
		{"podman, appended", "podman-5.5", root, map[string]string{
			"etc/containers/containers.conf.d/1.conf": "[engine]\ncdi_spec_dirs = ['/run/cdi', {append = true}]\n"},
			[]string{"/etc/cdi", "/run/cdi"}, "/etc/containers/containers.conf.d/1.conf"},
		{"podman of a user", "podman-5.6", user, map[string]string{
			"home/u/.config/containers/containers.conf": "[engine]\ncdi_spec_dirs = ['/home/u/cdi']\n",
			"etc/containers/containers.conf":            "[engine]\ncdi_spec_dirs = ['/opt/cdi']\n"}, []string{"/home/u/cdi"},
			"/home/u/.config/containers/containers.conf"},
		{"podman 6 reads one main file", "podman-6.0", user, map[string]string{
			"usr/share/containers/containers.conf":      "[engine]\ncdi_spec_dirs = ['/x']\n",
			"etc/containers/containers.conf":            "[engine]\ncdi_spec_dirs = ['/opt/cdi']\n",
			"home/u/.config/containers/containers.conf": ""}, []string{"/etc/cdi", "/var/run/cdi"}, ""},
		{"podman 6, drop-ins by their names", "podman-6.0", root, map[string]string{
			"etc/containers/containers.conf":                          "[engine]\ncdi_spec_dirs = ['/main']\n",
			"usr/share/containers/containers.conf.d/20.conf":          "[engine]\ncdi_spec_dirs = ['/vendor']\n",
			"etc/containers/containers.conf.d/10.conf":                "[engine]\ncdi_spec_dirs = ['/admin']\n",
			"etc/containers/containers.rootless.conf.d/30.conf":       "[engine]\ncdi_spec_dirs = ['/users']\n",
			"usr/share/containers/containers.rootful.conf.d/10.conf":  "[engine]\ncdi_spec_dirs = ['/hidden']\n",
			"etc/containers/containers.rootful.conf.d/15.conf.backup": "[engine]\ncdi_spec_dirs = ['/backup']\n"},
			[]string{"/vendor"}, "/usr/share/containers/containers.conf.d/20.conf"},
		{"podman 6 of a user", "podman-6.0", user, map[string]string{
			"etc/containers/containers.rootless.conf.d/1000/50.conf":   "[engine]\ncdi_spec_dirs = ['/of/1000']\n",
			"etc/containers/containers.rootful.conf.d/60.conf":         "[engine]\ncdi_spec_dirs = ['/of/root']\n",
			"home/u/.config/containers/containers.conf.d/40-mine.conf": "[engine]\ncdi_spec_dirs = ['/mine']\n"},
			[]string{"/of/1000"}, "/etc/containers/containers.rootless.conf.d/1000/50.conf"},
		{"CRI-O", "crio-1.31", root, map[string]string{"etc/crio/crio.conf.d/1.conf": cio}, []string{"/opt/cdi"},
			"/etc/crio/crio.conf.d/1.conf"},
		{"CRI-O, flag", "crio-1.31", root, map[string]string{"etc/crio/crio.conf": cio,
			"etc/systemd/system/crio.service": "[Service]\nExecStart=/usr/bin/crio --cdi-spec-dirs /a,/b\n"},
			[]string{"/a", "/b"}, "crio.service"},
	} {
		host := runtimeconf.Host{ReadLinkFS: hostfs.DirFS(hostOf(t, c.files))}
		config, err := runtimeconf.Read(host, lookup(t, c.target), c.user)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, config.Dirs); diff != "" || config.DirsFile != c.from {
			t.Errorf("%s: from %q (-want +got):\n%s", c.name, config.DirsFile, diff)
		}
	}
}

// TestDockerOff: the ways to turn CDI off in dockerd.
func TestDockerOff(t *testing.T) {
	const file, unit = "etc/docker/daemon.json", "etc/systemd/system/docker.service"
	for _, c := range []struct {
		files   map[string]string
		release string
		want    bool
	}{
		{nil, "27.5", false}, {nil, "28.2", true},
		{map[string]string{file: `{"features": {"cdi": true}}`}, "27.5", true},
		{map[string]string{file: `{"features": {"cdi": false}}`}, "28.2", false},
		{map[string]string{file: `{"features": {"cdi": true}, "cdi-spec-dirs": [""]}`}, "28.2", false},
		{map[string]string{unit: "[Service]\nExecStart=dockerd --feature cdi=true\n"}, "27.5", true},
		{map[string]string{unit: "[Service]\nExecStart=dockerd --feature=cdi=false\n"}, "28.2", false},
	} {
		host := runtimeconf.Host{ReadLinkFS: hostfs.DirFS(hostOf(t, c.files))}
		config, err := runtimeconf.Read(host, lookup(t, "docker-"+c.release), runtimeconf.User{})
		if err != nil || config.On != c.want {
			t.Errorf("%v, Docker %s: %+v, %v; want %v", c.files, c.release, config, err, c.want)
		}
	}
}

// TestBounds: a pattern of imports that matches very much, or a file that is no file, ends the reading.
func TestBounds(t *testing.T) {
	files := fstest.MapFS{main: {Data: []byte(v2 + "imports = ['*/*']\n")}}
	for i := range 3000 {
		files[fmt.Sprintf("etc/containerd/d%d/%d", i%50, i)] = &fstest.MapFile{}
	}
	_, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: files}, lookup(t, "containerd-1.7"), runtimeconf.User{})
	test.ErrorIs(t, err, runtimeconf.ErrBroken, test.Sprint("3,000 imports"))
}

// TestElsewhere: a runtime that is told to read other directories, and none that reads the default ones.
func TestElsewhere(t *testing.T) {
	files := map[string]string{"etc/docker/daemon.json": `{"cdi-spec-dirs": ["/opt/cdi"]}`,
		main: v2 + cri2 + "cdi_spec_dirs = ['/run/cdi']\n"}
	host := hostfs.DirFS(hostOf(t, files))
	for dir, want := range map[string]string{
		"/etc/cdi": "docker does not read /etc/cdi: /etc/docker/daemon.json names /opt/cdi for CDI specs\n" +
			"containerd does not read /etc/cdi: /etc/containerd/config.toml names /run/cdi for CDI specs",
		"/var/run/cdi": "docker does not read /var/run/cdi: /etc/docker/daemon.json names /opt/cdi for CDI specs",
	} {
		test.Eq(t, want, strings.Join(runtimeconf.Elsewhere(host, runtimeconf.User{}, dir), "\n"),
			test.Sprint(dir))
	}
	for dir, want := range map[string]string{
		"/opt/cdi": "", "/run/cdi": "",
		"/srv/cdi": "no container runtime here reads /srv/cdi: they read /etc/cdi and /var/run/cdi, or what their configuration names",
	} {
		test.Eq(t, want, runtimeconf.Unread(host, runtimeconf.User{}, dir), test.Sprint(dir))
	}
	rootless := fstest.MapFS{"home/u/.config/docker/daemon.json": {Data: []byte("{}")}} // Docker 29, moby#51624
	test.Eq(t, "", runtimeconf.Unread(rootless, runtimeconf.User{UID: 1000, Home: "/home/u"}, "/home/u/.config/cdi"))
	if got := runtimeconf.Elsewhere(fstest.MapFS{}, runtimeconf.User{}, "/etc/cdi"); len(got) > 0 {
		t.Errorf("a host without configuration: %q", got)
	}
}
