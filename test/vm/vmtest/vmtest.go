// Package vmtest runs the tests of a Go package inside the virtual machine and reports
// each of them as a subtest.
//
// A package for the guest skips where DRA_RDMA_VM is not set (see Guard), so that "go
// test ./..." passes over it on the host.
package vmtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// NetworkdVariable names the variable that has the command of a systemd-networkd.
const NetworkdVariable = "VM_NETWORKD"

// Guard is for TestMain of a package for the guest: on the host it says so and ends the
// program.
func Guard() {
	if os.Getenv("DRA_RDMA_VM") == "" {
		fmt.Fprintln(os.Stderr, "skipped: these tests run inside the virtual machine; run go test in test/vm")
		os.Exit(0)
	}
}

// Open returns the virtual machine, building its image where the cache lacks it. Where
// the host cannot run one the test is skipped, or fails if CI is set.
func Open(t *testing.T) *vm.VM {
	t.Helper()
	if err := vm.Check(); err != nil {
		needs.Missing(t, err)
	}
	v, err := vm.Build(t.Context(), vm.Options{Progress: os.Stderr})
	must.NoError(t, err)
	return v
}

// Run compiles the tests of a package, runs them in the guest with the machine of c,
// and reports each. Of c, Argv, Stdout and Stderr are set here; the package's tests find
// the working directory c.Dir, or that of their binary. VM_TEST_RUN in the environment
// selects some of them, as go test -run does.
func Run(t *testing.T, v *vm.VM, pkg string, c vm.Cmd, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "guest.test")
	compile := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s", "-o", program, pkg)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile the tests of %s: %v\n%s", pkg, err, out)
	}
	c.Shares = append(c.Shares, vm.Share{Path: dir})
	if c.Dir == "" {
		c.Dir = dir
	}
	// The guest must end before go test ends us, for its results to be seen.
	if deadline, ok := t.Deadline(); ok {
		if left := time.Until(deadline) - 20*time.Second; c.Timeout == 0 || left < c.Timeout {
			c.Timeout = left
		}
	}
	c.Argv = append([]string{program, "-test.v=test2json", "-test.timeout=0"}, flags...)
	if some := os.Getenv("VM_TEST_RUN"); some != "" {
		c.Argv = append(c.Argv, "-test.run="+some)
	}
	c.Env = append(c.Env, "CI="+os.Getenv("CI"), "TEST_LONG="+os.Getenv("TEST_LONG"))

	events, stdout := convert(t)
	var talk, console strings.Builder
	c.Stdout, c.Stderr, c.Console = stdout, &talk, &console
	code, err := v.Run(t.Context(), c)
	stdout.Close()
	root := <-events
	test.NoError(t, err, test.Sprintf("%v\n%s%s", err, root.text(), &talk))
	root.report(t)
	if code != 0 && !t.Failed() {
		t.Errorf("the guest's tests end with status %d\n%s%s", code, root.text(), &talk)
	}
	if code != 0 {
		t.Logf("the console of the guest, with the tasks that were blocked when its tests had failed:\n%s", &console)
	}
}

// convert returns a writer for a test binary's output, and a channel that gives the
// results when it is closed.
func convert(t *testing.T) (<-chan *node, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command("go", "tool", "test2json", "-t")
	in, err := cmd.StdinPipe()
	must.NoError(t, err)
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start(), must.Sprint("start go tool test2json"))
	events := make(chan *node, 1)
	go func() {
		root := &node{}
		err := root.read(out)
		if err := errors.Join(err, cmd.Wait()); err != nil {
			root.output = append(root.output, fmt.Sprintf("read the guest's results: %v\n", err))
		}
		events <- root
	}()
	return events, in
}

// node is a test of the guest's and its subtests, in the order of their start.
type node struct {
	name, path string
	action     string // pass, fail, skip; empty for one that did not end
	elapsed    float64
	output     []string
	subtests   []*node
}

// event is what test2json writes; see go doc test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// read reads events until the end and shows the progress, if the caller is verbose.
func (n *node) read(r io.Reader) error {
	start := time.Now()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("parse %q: %w", lines.Text(), err)
		}
		if e.Test == "" && e.Action != "output" {
			continue
		}
		at := n.find(e.Test)
		switch e.Action {
		case "output":
			at.output = append(at.output, e.Output)
			if e.Test == "" && testing.Verbose() {
				fmt.Fprintf(os.Stderr, "    guest [%5.1fs] %s", time.Since(start).Seconds(), e.Output)
			}
		case "pass", "fail", "skip":
			at.action, at.elapsed = e.Action, e.Elapsed
			if testing.Verbose() {
				fmt.Fprintf(os.Stderr, "    guest [%5.1fs] %s %s (%.1f s)\n", time.Since(start).Seconds(), e.Action, e.Test, e.Elapsed)
			}
		}
	}
	return lines.Err()
}

// find finds the node of a test by its full name, or makes it.
func (n *node) find(test string) *node {
	if test == "" {
		return n
	}
	for part := range strings.SplitSeq(test, "/") {
		n = n.subtest(part)
	}
	return n
}

func (n *node) subtest(name string) *node {
	for _, s := range n.subtests {
		if s.name == name {
			return s
		}
	}
	s := &node{name: name, path: strings.TrimPrefix(n.path+"/"+name, "/")}
	n.subtests = append(n.subtests, s)
	return s
}

// text is the output of a test, without test2json's own lines.
func (n *node) text() string {
	var b strings.Builder
	for _, line := range n.output {
		if trimmed := strings.TrimSpace(line); !strings.HasPrefix(trimmed, "=== ") && !strings.HasPrefix(trimmed, "--- ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// report makes each subtest one of t.
func (n *node) report(t *testing.T) {
	t.Helper()
	for _, s := range n.subtests {
		t.Run(s.name, func(t *testing.T) {
			if text := s.text(); text != "" {
				t.Logf("in the guest, %.1f s:\n%s", s.elapsed, text)
			}
			s.report(t)
			switch s.action {
			case "fail":
				t.Fail()
			case "skip":
				t.SkipNow()
			case "":
				t.Errorf("the guest's %s did not end", s.path)
			}
		})
	}
}
