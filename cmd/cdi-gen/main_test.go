package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

var update = golden.Update

// machines holds fixture machines as directories, made when first asked for.
var machines struct {
	sync.Mutex
	dir string
}

// asProgram in the environment makes this binary the program itself, for tests that
// want a process.
const asProgram = "CDI_GEN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == doctor.LookCommand {
		main()
	}
	flag.Parse()
	var err error
	// In memory where there is a directory for it: thousands of small files.
	if machines.dir, err = os.MkdirTemp("/dev/shm", "cdi-gen-test-"); err != nil {
		machines.dir, err = os.MkdirTemp("", "cdi-gen-test-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(machines.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// copyHost puts a machine into a directory of the test, which may change it.
func copyHost(t testing.TB, machine, dir string) {
	t.Helper()
	m, err := fixture.Load(machine)
	if err == nil {
		err = m.Extract(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host returns the directory to give as --host-root for a machine.
func host(t testing.TB, machine string) string {
	t.Helper()
	machines.Lock()
	defer machines.Unlock()
	dir := filepath.Join(machines.dir, machine)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	must.NoError(t, errors.Join(os.Mkdir(dir, 0o755), m.Extract(dir)))
	return dir
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
}

// cdigen runs the program.
func cdigen(t testing.TB, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// expect checks a result: the exit code, and a part of what was said. Nothing may
// be said twice, and nothing where nothing is expected.
func (r result) expect(t testing.TB, code int, says string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stderr, says) || says == "" && r.stderr != "" {
		t.Errorf("exit code %d, standard error %q; want %d and %q", r.code, r.stderr, code, says)
	}
	if r.code != exitOK && strings.Count(r.stderr, "cdi-gen: ") != 1 {
		t.Errorf("standard error %q; want one message", r.stderr)
	}
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)))
		return
	}
	want, err := os.ReadFile(file)
	must.NoError(t, err, must.Sprint("write it with: go test . -update"))
	test.Eq(t, string(want), got, test.Sprint(file))
}

// put makes a file, with its directory.
func put(t testing.TB, file, content string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), mode),
		os.Chmod(file, mode)); err != nil {
		t.Fatal(err)
	}
}

// holds checks that a directory has exactly these entries.
func holds(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	test.Eq(t, append([]string{}, want...), got, test.Sprint(dir))
}
