package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

const daemonJSON = "{\n  \"data-root\": \"/data\"\n}\n"

// TestConfigureDocker: the change is shown first, made, and taken back.
func TestConfigureDocker(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "etc/docker/daemon.json")
	put(t, file, daemonJSON, 0o644)
	args := []string{"configure", "docker", "--host-root", root}
	change := func(r result) {
		t.Helper()
		const want = " {\n-  \"data-root\": \"/data\"\n" +
			"+  \"data-root\": \"/data\",\n+  \"features\": {\n+    \"cdi\": true\n+  }\n }\n"
		test.StrHasSuffix(t, want, r.stdout, test.Sprint("standard output"))
	}
	r := cdigen(t, append(args, "--runtime-version", "27.0", "--dry-run")...)
	r.expect(t, exitOK, "next: cdi-gen generate --to /etc/cdi")
	change(r)
	holds(t, filepath.Dir(file), "daemon.json")
	r = cdigen(t, append(args, "--runtime-version", "27.0")...)
	r.expect(t, exitOK, "/etc/docker/daemon.json written\n/etc/docker/daemon.json.cdi-gen-backup has the old content\n"+
		"next: systemctl restart docker")
	change(r)
	test.Eq(t, daemonJSON, read(t, file+".cdi-gen-backup"), test.Sprint("the backup"))
	cdigen(t, append(args, "--runtime-version", "27.0")...).expect(t, exitOK, "needs no change: CDI is on")
	r = cdigen(t, append(args, "--undo")...)
	r.expect(t, exitOK, "/etc/docker/daemon.json is as before")
	holds(t, filepath.Dir(file), "daemon.json")
	if got, err := os.ReadFile(file); err != nil || string(got) != daemonJSON {
		t.Errorf("the file has %q, %v", got, err)
	}
	cdigen(t, append(args, "--undo")...).expect(t, exitOK, "nothing to undo")
}

// TestConfigureRefuses: an error says what to do, and nothing is written.
func TestConfigureRefuses(t *testing.T) {
	root := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"docker --runtime-version 24.0", exitRefused, "docker 24.0 has no CDI; upgrade to 25 or later; until then"},
		{"docker", exitUsage, "the version of docker below --host-root is not known: name it with --runtime-version"},
		{"docker --runtime-version new", exitUsage, "--runtime-version: look up target"},
		{"docker podman", exitUsage, "name one runtime"},
		{"lxc", exitUsage, "name one runtime: docker, containerd, crio or podman"},
		{"", exitUsage, "name one runtime"},
	} {
		r := cdigen(t, append([]string{"configure", "--host-root", root}, strings.Fields(c.args)...)...)
		r.expect(t, c.code, c.says)
	}
	cdigen(t, "configure", "podman", "--runtime-version", "4.3", "--host-root", root).
		expect(t, exitOK, "podman reads CDI specs without any configuration, from /etc/cdi and /var/run/cdi")
	cdigen(t, "configure", "podman", "--undo", "--host-root", root).expect(t, exitOK, "nothing to undo")
	holds(t, root)
}

// TestConfigureNotRoot: a user learns that only root can change the file, and what a rootless dockerd needs.
func TestConfigureNotRoot(t *testing.T) {
	needs.Root(t, "it becomes another user")
	setpriv := needs.Program(t, "setpriv", "apt-get install util-linux")
	self, err := os.Executable()
	must.NoError(t, err)
	home := t.TempDir()
	self, data := filepath.Join(home, "cdi-gen"), read(t, self)
	put(t, self, data, 0o755)
	for _, dir := range []string{home, filepath.Dir(home)} { // the other user must reach the program
		must.NoError(t, os.Chmod(dir, 0o755))
	}
	try := func() string {
		t.Helper()
		cmd := exec.Command(setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", self, "configure", "docker",
			"--runtime-version", "27")
		cmd.Env = []string{asProgram + "=1", "HOME=" + home, "GORACE=atexit_sleep_ms=0"}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitRefused {
			t.Errorf("exit code %d, want %d: %s", code, exitRefused, out)
		}
		return string(out)
	}
	// On a machine with Docker there may be nothing to change.
	if _, err := os.Stat("/etc/docker"); os.IsNotExist(err) {
		test.StrContains(t, try(), "only root can change /etc/docker/daemon.json: run the same command",
			test.Sprint("output"))
	}
	file := filepath.Join(home, ".config/docker/daemon.json")
	put(t, file, "{}", 0o644)
	for dir := filepath.Dir(file); dir != home; dir = filepath.Dir(dir) {
		must.NoError(t, os.Chmod(dir, 0o755))
	}
	test.StrContains(t, try(), `"cdi-spec-dirs": ["DIR"] in `+file, test.Sprint("output"))
	test.Eq(t, "{}", read(t, file), test.Sprint("the file of the user"))
}

// TestConfigureAsksTheRuntime: on the host itself the runtime says its version. The program of the test stands in the
// search path and not on the host, whose configuration --dry-run leaves alone.
func TestConfigureAsksTheRuntime(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "podman"), "#!/bin/sh\necho podman version 3.4.4\n", 0o755)
	t.Setenv("PATH", dir)
	cdigen(t, "configure", "podman", "--dry-run").expect(t, exitRefused, "podman 3.4.4 has no CDI")
	cdigen(t, "configure", "crio", "--dry-run").expect(t, exitIO, "run crio --version")
	put(t, filepath.Join(dir, "podman"), "#!/bin/sh\necho podman\n", 0o755)
	cdigen(t, "configure", "podman", "--dry-run").expect(t, exitUsage, "its version cannot be read")
}

// TestConfigureKilled: whenever configure is killed, the runtime's configuration is the old one or the new one, the
// next try completes it, and undo restores the old one.
func TestConfigureKilled(t *testing.T) {
	if err := sysfault.Available(); err != nil {
		needs.Missing(t, err)
	}
	s := sysfault.New(t)
	root := t.TempDir()
	file := filepath.Join(root, "etc/docker/daemon.json")
	do := []string{"configure", "docker", "--host-root", root, "--runtime-version", "27"}
	undo := []string{"configure", "docker", "--host-root", root, "--undo"}
	put(t, file, daemonJSON, 0o644)
	cdigen(t, do...).expect(t, exitOK, "written")
	configured := read(t, file)
	cdigen(t, undo...).expect(t, exitOK, "is as before")
	steps := func(before, after string, first, args []string) {
		t.Helper()
		for n := 1; ; n++ {
			if first != nil {
				cdigen(t, first...).expect(t, exitOK, "next")
			}
			shot := s.Arm(sysfault.Fault{N: n, Match: sysfault.Below(root), Do: sysfault.Kill})
			cmd := program(t, args...)
			command := s.Command(cmd.Path, args...)
			killed := exec.Command(command[0], command[1:]...)
			killed.Env = cmd.Env
			out, err := killed.CombinedOutput()
			shot.Disarm()
			call, fired := shot.Fired()
			if !fired && err != nil {
				t.Fatalf("without a fault: %v: %s", err, out)
			}
			must.True(t, slices.Contains([]string{before, after}, read(t, file)),
				must.Sprintf("killed at call %d, %v: the file", n, call))
			cdigen(t, args...).expect(t, exitOK, " ")
			must.Eq(t, after, read(t, file),
				must.Sprintf("killed at call %d, %v, and tried again: the file", n, call))
			cdigen(t, undo...).expect(t, exitOK, " ")
			must.Eq(t, daemonJSON, read(t, file),
				must.Sprintf("killed at call %d, %v, and undone: the file", n, call))
			if !fired {
				test.GreaterEq(t, 8, n, test.Sprintf("%d calls were killed; want more", n-1))
				return
			}
		}
	}
	steps(daemonJSON, configured, nil, do)
	steps(configured, daemonJSON, do, undo)
	entries, err := os.ReadDir(filepath.Dir(file))
	must.NoError(t, err)
	for _, e := range entries { // a killed writer leaves its temporary file, which no runtime reads
		if !strings.HasPrefix(e.Name(), ".rdma.dev-") && e.Name() != "daemon.json" {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestConfigureGolden: what configure prints for runtimes that are not on the machine of the test.
func TestConfigureGolden(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "etc/crio/crio.conf"), "[crio.runtime]\ncdi_spec_dirs = [\"/opt/cdi\"]\n", 0o644)
	r := cdigen(t, "configure", "crio", "--host-root", root, "--runtime-version", "1.31")
	checkGolden(t, "configure/crio.txt", r.stdout+"--\n"+r.stderr)
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must.NoError(t, err)
	return string(data)
}
