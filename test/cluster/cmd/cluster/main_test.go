package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

func TestBadUsage(t *testing.T) {
	for _, line := range []string{
		"dance", "up now", "up --no-such-flag", "up --feature-gates A=perhaps", "up --kubernetes 1.2",
		"build --kubernetes 1.2", "exec", "load",
		"component", "component stop", "component stop a b", "logs", "down --keep=perhaps",
	} {
		var out, talk bytes.Buffer
		err := run(t.Context(), strings.Fields(line), &out, &talk)
		if code := exitCode(err, &talk); code != 2 || out.Len() > 0 || !strings.Contains(talk.String(), "cluster help") {
			t.Errorf("cluster %s: status %d, stdout %q, stderr %q", line, code, &out, &talk)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"", "help", "--help", "up --help"} {
		var out bytes.Buffer
		test.NoError(t, run(t.Context(), strings.Fields(line), &out, &out), test.Sprintf("cluster %s", line))
		for name := range verbs {
			test.StrContains(t, out.String(), "cluster "+name,
				test.Sprintf("cluster %s: says nothing of %q", line, name))
		}
	}
}

func TestNotRunning(t *testing.T) {
	for _, line := range []string{"status", "exec --state-dir DIR -- true", "load x.tar", "component start kubelet"} {
		dir := t.TempDir()
		argv := strings.Fields(strings.ReplaceAll(line, " --state-dir DIR", ""))
		flags := []string{"--state-dir", dir}
		at := 1
		if argv[0] == "component" {
			at = 2
		}
		argv = append(argv[:at:at], append(flags, argv[at:]...)...)
		var out bytes.Buffer
		err := run(t.Context(), argv, &out, &out)
		if code := exitCode(err, &out); code != 3 || !errors.Is(err, cluster.ErrNotRunning) {
			t.Errorf("cluster %s: status %d, %v", strings.Join(argv, " "), code, err)
		}
	}
}

func TestExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137} {
		err := exec.Command("/bin/sh", "-c", script).Run()
		test.Eq(t, want, exitCode(fmt.Errorf("run: %w", err), os.Stderr), test.Sprint(script))
	}
	test.Eq(t, 0, exitCode(nil, os.Stderr), test.Sprint("no"))
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "sigterm": syscall.SIGTERM, "9": syscall.SIGKILL} {
		if got, err := parseSignal(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	if _, err := parseSignal("TERMINATE"); !errors.Is(err, errUsage) {
		t.Errorf("unknown signal: %v", err)
	}
}
