package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/doctor"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// diagnose runs the verb.
func diagnose(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"doctor"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestDoctorExitCodes(t *testing.T) {
	healthy := rdmatest.Root(t, "soft")
	hook := filepath.Join(healthy, "usr/bin/rdma-hook")
	must.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	must.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o755))
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"generate", "--host-root", healthy, "--hook-path", "/usr/bin/rdma-hook",
		"--to", filepath.Join(healthy, "etc/cdi")}, &errs, &errs); code != exitOK {
		t.Fatalf("generate: exit code %d: %s", code, errs.String())
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nacknowledge: [spec-none]\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"healthy", []string{"--host-root", healthy}, exitOK, "specs-ok", ""},
		{"warnings", []string{"--host-root", rdmatest.Root(t, "roce-lag")}, exitWarnings, "spec-none",
			""},
		{"acknowledged", []string{"--host-root", rdmatest.Root(t, "roce-lag"), "--acknowledge", "spec-none"}, exitOK,
			"ACKNOWLEDGED\n  spec-none", ""},
		{"acknowledged by file", []string{"--host-root", rdmatest.Root(t, "roce-lag"), "--config", config}, exitOK,
			"ACKNOWLEDGED\n  spec-none", ""},
		{"flag before file", []string{"--host-root", rdmatest.Root(t, "roce-lag"), "--config", config, "--acknowledge",
			"port-down"}, exitWarnings, "WARNINGS\n  spec-none", ""},
		{"acknowledged wrongly", []string{"--acknowledge", "spec-nine"}, exitUsage, "",
			`--acknowledge: "spec-nine": want the ID`},
		{"no such file", []string{"--config", config + ".no"}, exitUsage, "", "read --config"},
		{"errors", []string{"--host-root", rdmatest.Root(t, "soft-pci")}, exitErrors, "netns-exclusive",
			""},
		{"no host", []string{"--host-root", t.TempDir()}, exitIO, "", "is the host's root directory at"},
		{"bad output", []string{"-o", "xml"}, exitUsage, "", `--output "xml": want table, json or yaml`},
		{"argument", []string{"now"}, exitUsage, "", `unknown argument "now"`},
		{"bad flag", []string{"--fix"}, exitUsage, "", "unknown flag: --fix"},
	} {
		code, stdout, stderr := diagnose(t, c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(c.stderr == "") != (stderr == "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.code, stdout, stderr)
		}
	}
}

// The formats have the same findings.
func TestDoctorFormats(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	_, text, _ := diagnose(t, "--host-root", root)
	_, asJSON, _ := diagnose(t, "--host-root", root, "-o", "json")
	_, asYAML, _ := diagnose(t, "--host-root", root, "--output", "yaml")
	var a, b doctor.Report
	must.NoError(t, json.Unmarshal([]byte(asJSON), &a))
	must.NoError(t, yaml.Unmarshal([]byte(asYAML), &b))
	if diff := cmp.Diff(a, b); diff != "" || len(a.Findings) == 0 {
		t.Errorf("%d findings, -json +yaml:\n%s", len(a.Findings), diff)
	}
	for _, f := range a.Findings {
		if !strings.Contains(text, string(f.ID)+" ") || !strings.Contains(text, f.Title) {
			t.Errorf("%s is not in the table:\n%s", f.ID, text)
		}
	}
	test.StrNotContains(t, text, "\x1b", test.Sprint("colour outside of a terminal"))
	test.StrNotContains(t, asJSON, `\u003e`, test.Sprint("commands are escaped for HTML"))
}

// Doctor writes nothing.
func TestDoctorWritesNothing(t *testing.T) {
	root := rdmatest.Root(t, "soft")
	before := listing(t, root)
	diagnose(t, "--host-root", root)
	test.Eq(t, before, listing(t, root), test.Sprint("before and after"))
}

// listing is every file of a tree with its mode, size and time.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		list = append(list, strings.Join([]string{path, info.Mode().String(), info.ModTime().String()}, " "))
		return nil
	})
	must.NoError(t, err)
	return list
}

// The host's own reports are whole, whatever this host is.
func TestDoctorOnThisHost(t *testing.T) {
	code, stdout, stderr := diagnose(t)
	if code != exitOK && code != exitWarnings && code != exitErrors || stdout == "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestIsTerminal(t *testing.T) {
	test.False(t, isTerminal(&bytes.Buffer{}), test.Sprint("a buffer is a terminal"))
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs a pseudo terminal: %v", err)
	}
	defer func() {
		test.NoError(t, pty.Close())
	}()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	test.True(t, isTerminal(pty), test.Sprint("a terminal is none"))
	t.Setenv("NO_COLOR", "1")
	test.False(t, isTerminal(pty), test.Sprint("NO_COLOR has no effect"))
}
