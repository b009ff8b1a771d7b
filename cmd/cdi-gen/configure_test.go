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

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must.NoError(t, err)
	return string(data)
}
