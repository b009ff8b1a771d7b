// Package runtimes holds tests that run inside the virtual machine: cdi-gen's specs on a
// real RDMA kernel, in podman, containerd and rootless podman, with real traffic.
package runtimes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// What the tests find in the guest: the programs in the working directory, and RDMA
// devices that the test outside asked for.
const (
	toolsImage = vm.ToolsImage
	specDir    = "/etc/cdi"
	// hookPath is where a package puts the hook.
	hookPath = "/usr/bin/rdma-hook"

	// The addresses of the first and of the third device.
	rxe0Address = "10.77.1.1"
	siw0Address = "10.77.3.1"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set up the guest:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs cdi-gen and the hook and writes the spec, as a user would, and loads
// the image.
func setUp() error {
	var errs []error
	for from, to := range map[string]string{"cdi-gen": "/usr/bin/cdi-gen", "rdma-hook": hookPath} {
		data, err := os.ReadFile(from)
		errs = append(errs, err, os.WriteFile(to, data, 0o755))
	}
	// There is no systemd and no journal here.
	errs = append(errs,
		os.MkdirAll("/etc/containers", 0o755),
		os.WriteFile("/etc/containers/containers.conf", []byte("[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"), 0o644))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"cdi-gen", "generate", "--output", specDir},
		{"podman", "load", "--input", os.Getenv("TOOLS_ARCHIVE")},
	} {
		if r := run(argv...); r.code != 0 {
			return fmt.Errorf("%s: status %d: %s", strings.Join(argv, " "), r.code, r.out)
		}
	}
	return nil
}

// result is what a command said and how it ended.
type result struct {
	out  string
	code int
}

// run runs a command and returns both its outputs.
func run(argv ...string) result {
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return result{err.Error(), 127}
	}
	return result{string(out), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed, and returns what it said.
func must(t *testing.T, argv ...string) string {
	t.Helper()
	r := run(argv...)
	if r.code != 0 {
		t.Fatalf("%s: status %d\n%s", strings.Join(argv, " "), r.code, r.out)
	}
	return r.out
}

// stdout runs a command that has to succeed, and returns its standard output.
func stdout(t *testing.T, argv ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, &stderr)
	}
	return string(out)
}

// lockedMemory is the front of a command line that gives the rest a soft and hard limit,
// as a runtime has it that was started with one.
func lockedMemory(limit string) []string { return []string{"prlimit", "--memlock=" + limit} }

// eventually waits for a condition.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// wants asserts that a text has all the words.
func wants(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q:\n%s", what, word, text)
		}
	}
}

// uverbs is the node of an ibdev, by the kernel's own word.
func uverbs(t *testing.T, ibdev string) string {
	t.Helper()
	files, err := filepath.Glob("/sys/class/infiniband_verbs/uverbs*/ibdev")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(data)) == ibdev {
			return filepath.Base(filepath.Dir(file))
		}
	}
	t.Fatalf("the kernel has no uverbs node for %s", ibdev)
	return ""
}

// number is the device number of a node as mknod takes it: "231 192".
func number(t *testing.T, class, node string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/sys/class", class, node, "dev"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(strings.TrimSpace(string(data)), ":", " ", 1)
}
