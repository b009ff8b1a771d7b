package configure_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/configure"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

const (
	dockerFile     = "etc/docker/daemon.json"
	containerdFile = "etc/containerd/config.toml"
	criV2          = `[plugins."io.containerd.grpc.v1.cri"]` + "\n"
	criV3          = `[plugins."io.containerd.cri.v1.runtime"]` + "\n"
	imports        = "imports = ['conf.d/*.toml']\n"
	nvidia         = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n"
)

// state has the files of a host. No entry means that the file does not exist.
type state map[string]string

func (s state) make(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range s {
		path := filepath.Join(root, name)
		must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)))
	}
	return root
}

// stateOf reads the files of a host.
func stateOf(t testing.TB, root string) state {
	t.Helper()
	s := state{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		s[name] = string(data)
		return err
	})
	must.NoError(t, err)
	return s
}

func lookup(t testing.TB, name string) runtimes.Target {
	t.Helper()
	target, err := runtimes.Lookup(name)
	must.NoError(t, err)
	return target
}

// TestConfigure: each runtime gets what it needs and no more, and is as before after Undo.
func TestConfigure(t *testing.T) {
	crio := "# Written by cdi-gen configure crio; cdi-gen configure crio --undo removes it.\n" +
		"[crio.runtime]\ncdi_spec_dirs = [\n  \"/opt/cdi\",\n  \"/etc/cdi\",\n  \"/var/run/cdi\",\n]\n"
	for _, c := range []struct {
		name, target string
		before       state
		file, want   string // the file after the change, "" for no change
	}{
		{"Docker without a file", "docker-27", nil, dockerFile, "{\n  \"features\": {\n    \"cdi\": true\n  }\n}\n"},
		{"Docker with an empty file", "docker-27", state{dockerFile: ""}, dockerFile,
			"{\n  \"features\": {\n    \"cdi\": true\n  }\n}\n"},
		{"Docker with settings", "docker-27", state{dockerFile: "{\n  \"z\": 1e3,\n  \"a\": [ 2 ]\n}\n"}, dockerFile,
			"{\n  \"z\": 1e3,\n  \"a\": [ 2 ],\n  \"features\": {\n    \"cdi\": true\n  }\n}\n"},
		{"Docker with an empty object", "docker-27", state{dockerFile: "{}"}, dockerFile,
			"{\n  \"features\": {\n    \"cdi\": true\n  }\n}"},
		{"Docker with features", "docker-25", state{dockerFile: "{\"features\": {\"buildkit\": true}}\n"}, dockerFile,
			"{\"features\": {\"buildkit\": true,\"cdi\":true}}\n"},
		{"Docker, switched off", "docker-29", state{dockerFile: `{"features":{"cdi":false}}`}, dockerFile,
			`{"features":{"cdi":true}}`},
		{"Docker, switched on", "docker-27", state{dockerFile: `{"features":{"cdi":true}}`}, "", ""},
		{"Docker with CDI by default", "docker-28.3", state{dockerFile: `{"a":1}`}, "", ""},
		{"containerd without a file", "containerd-1.7", nil, containerdFile,
			"version = 2\n" + criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"containerd with a section", "containerd-1.7",
			state{containerdFile: "version = 2\n# c\n" + criV2 + "  x = 1 # y\n[debug]\n"}, containerdFile,
			"version = 2\n# c\n" + criV2 + "  enable_cdi = true # set by cdi-gen configure\n  x = 1 # y\n[debug]\n"},
		{"containerd, switched off", "containerd-1.7",
			state{containerdFile: "version = 2\n" + criV2 + "\tx = 1\n\tenable_cdi = false\n"}, containerdFile,
			"version = 2\n" + criV2 + "\tx = 1\n\tenable_cdi = true # set by cdi-gen configure; before: enable_cdi = false\n"},
		{"containerd 2, switched off", "containerd-2.0",
			state{containerdFile: "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi=false"}, containerdFile,
			"version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n" +
				"enable_cdi = true # set by cdi-gen configure; before: enable_cdi=false\n"},
		{"containerd without a section", "containerd-1.7", state{containerdFile: "version = 2\n[debug]\nlevel='info'"},
			containerdFile, "version = 2\n[debug]\nlevel='info'\n" + criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"containerd 2", "containerd-2.1", state{containerdFile: "version = 3\n"}, "", ""},
		{"containerd 2 with an old file", "containerd-2.1", state{containerdFile: "[debug]\n"}, "", ""},
		{"containerd of Docker", "containerd-1.7", state{containerdFile: "disabled_plugins=['cri']\n"}, "", ""},
		{"containerd with an import that replaces the section", "containerd-1.7",
			state{containerdFile: "version = 2\n" + imports, "etc/containerd/conf.d/9.toml": nvidia}, "etc/containerd/conf.d/9.toml",
			nvidia + criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"containerd with an import of another plugin", "containerd-1.7", state{containerdFile: "version = 2\n" + imports,
			"etc/containerd/conf.d/9.toml": "[plugins.'io.containerd.gc.v1.scheduler']\n"}, containerdFile,
			"version = 2\n" + imports + criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"containerd with two imports", "containerd-1.7", state{containerdFile: "version = 2\n" + imports + criV2,
			"etc/containerd/conf.d/1.toml": criV2 + "enable_cdi = true\n", "etc/containerd/conf.d/2.toml": criV2},
			"etc/containerd/conf.d/2.toml", criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"containerd on by an import", "containerd-1.7", state{containerdFile: "version = 2\n" + imports,
			"etc/containerd/conf.d/1.toml": criV2 + "enable_cdi = true\n"}, "", ""},
		{"containerd 2 off by an import", "containerd-2.2", state{containerdFile: "version = 3\n" + imports,
			"etc/containerd/conf.d/1.toml": "version = 3\n" + criV3 + "enable_cdi = false\n"}, "etc/containerd/conf.d/1.toml",
			"version = 3\n" + criV3 + "enable_cdi = true # set by cdi-gen configure; before: enable_cdi = false\n"},
		{"containerd with the file of its unit", "containerd-1.7", state{"opt/c.toml": "version = 2\n",
			"etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/bin/containerd -c /opt/c.toml\n"}, "opt/c.toml",
			"version = 2\n" + criV2 + "  enable_cdi = true # set by cdi-gen configure\n"},
		{"Docker with the file of its unit", "docker-27", state{"opt/d.json": "{}",
			"etc/systemd/system/docker.service": "[Service]\nExecStart=/usr/bin/dockerd --config-file /opt/d.json\n"},
			"opt/d.json", "{\n  \"features\": {\n    \"cdi\": true\n  }\n}"},
		{"CRI-O", "crio-1.31", nil, "", ""},
		{"CRI-O with a directory", "crio-1.31",
			state{"etc/crio/crio.conf": "[crio.runtime]\ncdi_spec_dirs = ['/run/cdi']\n"}, "", ""},
		{"CRI-O with other directories", "crio-1.31",
			state{"etc/crio/crio.conf.d/10-x.conf": "[crio.runtime]\ncdi_spec_dirs = ['/opt/cdi']\n"},
			"etc/crio/crio.conf.d/99-cdi-gen.conf", crio},
		{"podman", "podman-4.3", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := c.before.make(t)
			before := stateOf(t, root)
			target := lookup(t, c.target)
			plan, err := configure.New(root, target, runtimeconf.User{})
			must.NoError(t, err)
			test.Eq(t, before, stateOf(t, root), test.Sprint("the plan writes"))
			if c.file == "" && (plan.Path != "" || len(plan.Notes) == 0) {
				t.Errorf("plan %+v; want no change, and why", plan)
			}
			must.NoError(t, plan.Apply())
			after := stateOf(t, root)
			if c.file != "" {
				test.Eq(t, c.want, after[c.file], test.Sprintf("%s", c.file))
			}
			if again, err := configure.New(root, target, runtimeconf.User{}); err != nil || again.Path != "" {
				t.Errorf("a second plan %+v, %v; want no change", again, err)
			}
			undo, err := configure.NewUndo(root, target.Runtime)
			if err != nil || (undo.Path == "") != (c.file == "") {
				t.Fatalf("undo %+v, %v", undo, err)
			}
			must.NoError(t, undo.Apply())
			test.Eq(t, before, stateOf(t, root), test.Sprint("after undo"))
		})
	}
}

// TestRefused: what cannot work, and what cannot be edited safely, is refused with what to do, and nothing is written.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		target, file, text, says string
	}{
		{"docker-24.0", "", "", "has no CDI; upgrade to 25 or later"},
		{"containerd-1.6", "", "", "has no CDI; upgrade to 1.7 or 2.x"},
		{"podman-3.4", "", "", "has no CDI"},
		{"docker-27", dockerFile, "{", "it is no JSON object"},
		{"docker-27", dockerFile, "null", "it is null"},
		{"docker-27", dockerFile, `{"features": 1}`, "features is no object"},
		{"docker-27", dockerFile, `{"features": {"cdi": false}, "features": {"a": true}}`, "cannot be edited"},
		{"containerd-1.7", containerdFile, "version = ", "is no TOML"},
		{"containerd-1.7", containerdFile, "[plugins.cri]\n", "has version 1"},
		{"containerd-1.7", containerdFile, "version = 2\n[plugins]\n\"io.containerd.grpc.v1.cri\" = { x = 1 }\n",
			"cannot be edited"},
		{"containerd-1.7", containerdFile, "version = 2\nx = '''\n" + criV2 + "'''\n", "cannot be edited"},
		{"crio-1.31", "etc/crio/crio.conf", "[", "is no TOML"},
		{"crio-1.31", "etc/crio/crio.conf.d/99-x.conf", "[crio.runtime]\ncdi_spec_dirs = ['/opt/cdi']\n", "wins over"},
		{"containerd-1.7", containerdFile, "version = 2\nimports = ['*']\n" + criV2, "no edit of"},
		{"containerd-1.7", containerdFile, "version = 2\nimports = ['x.toml']\n", "does not exist"},
		{"containerd-1.7", containerdFile, "version = 3\n", "does not know version 3"},
		{"containerd-2.0", containerdFile, "version = 2\n" + criV2 + "cdi_spec_dirs = []\n", "names no directory"},
		{"docker-28.3", dockerFile, `{"cdi-spec-dirs": [""]}`, "turns CDI off"},
		{"docker-27", dockerFile, `{"cdi-spec-dirs": [""]}`, "turns CDI off"},
		// moby#48860; daemon/config/config.go, findConfigurationConflicts
		{"docker-27.5", "usr/lib/systemd/system/docker.service",
			"[Service]\nExecStart=/usr/bin/dockerd -H fd:// --feature containerd-snapshotter=true\n", "add --feature cdi=true"},
		{"podman-5.6", "etc/containers/containers.conf", "[engine]\ncdi_spec_dirs = []\n", "is empty"},
	} {
		before := state{}
		if c.file != "" {
			before[c.file] = c.text
		}
		root := before.make(t)
		target, err := runtimes.Lookup(c.target)
		must.NoError(t, err)
		_, err = configure.New(root, target, runtimeconf.User{})
		if !errors.Is(err, configure.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %q: %v; want it to be refused with %q", c.target, c.text, err, c.says)
		}
		test.Eq(t, before, stateOf(t, root), test.Sprintf("%s: the host changed", c.target))
	}
}

// TestNotes: a runtime that reads specs elsewhere is no success without a word, and a rootless dockerd is none.
func TestNotes(t *testing.T) {
	root := state{dockerFile: `{"cdi-spec-dirs": ["/opt/cdi"]}`}.make(t)
	plan, err := configure.New(root, lookup(t, "docker-27"), runtimeconf.User{})
	const note = "docker reads CDI specs from /opt/cdi, as /etc/docker/daemon.json says"
	if err != nil || !cmp.Equal(plan.Dirs, []string{"/opt/cdi"}) || !slices.Contains(plan.Notes, note) {
		t.Errorf("%+v, %v", plan, err)
	}
	user := runtimeconf.User{UID: 1000, Home: "/home/u"}
	root = state{"home/u/.config/docker/daemon.json": "{}"}.make(t)
	_, err = configure.New(root, lookup(t, "docker-28"), user)
	if !errors.Is(err, configure.ErrRefused) || !strings.Contains(err.Error(), "/home/u/.config/docker/daemon.json") {
		t.Errorf("rootless: %v", err)
	}
	// moby#51624: on by default, from directories of the user
	plan, err = configure.New(root, lookup(t, "docker-29"), user)
	if err != nil || plan.Path != "" || !slices.Contains(plan.Dirs, "/home/u/.config/cdi") {
		t.Errorf("rootless, 29: %+v, %v", plan, err)
	}
	for dir, refused := range map[string]bool{"/home/u/cdi": false, "/etc/cdi": true} {
		root = state{"home/u/.config/docker/daemon.json": `{"cdi-spec-dirs": ["` + dir + `"]}`}.make(t)
		_, err = configure.New(root, lookup(t, "docker-29"), user)
		test.Eq(t, refused, errors.Is(err, configure.ErrRefused), test.Sprintf("rootless, with %s: %v", dir, err))
	}
}

// TestUndoEdited: undo of a file that somebody has edited since takes back our setting only.
func TestUndoEdited(t *testing.T) {
	for _, c := range []struct{ target, file, before, edited, want string }{
		{"docker-27", dockerFile, `{"a":1}`, `{"a":2,"features":{"cdi":true}}`, `{"a":2}`},
		{"docker-27", dockerFile, `{"features":{"cdi":false}}`, `{"features":{"cdi":true},"b":1}`,
			`{"features":{"cdi":false},"b":1}`},
		{"docker-27", dockerFile, `{"a":1}`, `{"features":{"cdi":true,"x":true}}`, `{"features":{"x":true}}`},
		{"docker-27", dockerFile, `{"a":1}`, `{"a":3}`, `{"a":3}`},
		{"containerd-1.7", containerdFile, "version = 2\n" + criV2 + " enable_cdi = false\n",
			"version = 2\n" + criV2 + " enable_cdi = true # set by cdi-gen configure; before: enable_cdi = false\n y = 1\n",
			"version = 2\n" + criV2 + " enable_cdi = false\n y = 1\n"},
		{"containerd-1.7", containerdFile, "version = 2\n",
			"version = 2\n" + criV2 + "  enable_cdi = true # set by cdi-gen configure\n  y = 1\n",
			"version = 2\n" + criV2 + "  y = 1\n"},
	} {
		root := state{c.file: c.before}.make(t)
		target := lookup(t, c.target)
		plan, err := configure.New(root, target, runtimeconf.User{})
		if err == nil {
			err = plan.Apply()
		}
		must.NoError(t, err)
		must.NoError(t, os.WriteFile(filepath.Join(root, c.file), []byte(c.edited), 0o640))
		undo, err := configure.NewUndo(root, target.Runtime)
		if err == nil {
			err = undo.Apply()
		}
		must.NoError(t, err)
		test.Eq(t, state{c.file: c.want}, stateOf(t, root), test.Sprintf("%s edited to %q", c.target, c.edited))
	}
}

// TestKeepsOwner: the file and its backup have the mode and the owner of the file, and a link in /etc stays one.
func TestKeepsOwner(t *testing.T) {
	root := state{"opt/daemon.json": `{"a":1}`}.make(t)
	target := filepath.Join(root, "opt/daemon.json")
	link := filepath.Join(root, dockerFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("/opt/daemon.json", link),
		os.Chmod(target, 0o600)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		must.NoError(t, os.Chown(target, 7, 8))
	}
	before, err := os.Stat(target)
	must.NoError(t, err)
	plan, err := configure.New(root, lookup(t, "docker-27"), runtimeconf.User{})
	if err == nil {
		err = plan.Apply()
	}
	must.NoError(t, err)
	if to, err := os.Readlink(link); err != nil || to != "/opt/daemon.json" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	for _, file := range []string{target, target + ".cdi-gen-backup"} {
		after, err := os.Stat(file)
		must.NoError(t, err)
		test.Eq(t, owner(after), owner(before), test.Sprintf("%s has owner", file))
	}
}

// TestContainerdReads: containerd itself reads what configure leaves.
func TestContainerdReads(t *testing.T) {
	program, err := exec.LookPath("containerd")
	if err != nil {
		needs.Missing(t, err)
	}
	for _, before := range []string{"", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc." +
		"options]\n  SystemdCgroup = true\n"} {
		root := state{containerdFile: before}.make(t)
		plan, err := configure.New(root, lookup(t, "containerd-1.7"), runtimeconf.User{})
		if err == nil {
			err = plan.Apply()
		}
		must.NoError(t, err)
		out, err := exec.Command(program, "--config", filepath.Join(root, containerdFile), "config", "dump").Output()
		if err != nil || strings.Contains(string(out), "SystemdCgroup = true") != (before != "") {
			t.Errorf("%v: containerd reads %s", err, out)
		}
	}
}
