package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// Below a host root nothing of this system is looked at: no program is run, no
// process is read.
func TestOpen(t *testing.T) {
	dir := rdmatest.Root(t, "soft")
	write(t, filepath.Join(dir, "etc/cdi/a.yml"), "x")
	h := Open(dir)
	h.Run = func(context.Context, string, ...string) (string, error) { panic("a program is run") }
	r, err := Diagnose(t.Context(), h)
	must.NoError(t, err)
	text := render(t, r)
	for _, want := range []string{"spec-extension", "spec-none", "rdmamap finds the same 4 devices",
		"/dev: it is not below the host root"} {
		test.StrContains(t, text, want, test.Sprint("no"))
	}
}

// A FIFO and a sparse file in the directories of specs cost neither time nor memory.
func TestSpecsOnDisk(t *testing.T) {
	dir := rdmatest.Root(t, "soft")
	write(t, filepath.Join(dir, "etc/cdi/large.json"), "")
	if err := errors.Join(os.Truncate(filepath.Join(dir, "etc/cdi/large.json"), 1<<40),
		syscall.Mkfifo(filepath.Join(dir, "etc/cdi/fifo.json"), 0o644),
		os.MkdirAll(filepath.Join(dir, "proc/self"), 0o755),
		syscall.Mkfifo(filepath.Join(dir, "proc/meminfo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	r, err := Diagnose(t.Context(), Open(dir))
	must.NoError(t, err)
	text := render(t, r)
	for _, want := range []string{"/etc/cdi/large.json", "/proc/meminfo: not a regular file"} {
		test.StrContains(t, text, want, test.Sprint("no"))
	}
}

// Device nodes on a disk are told by their numbers.
func TestRealNodes(t *testing.T) {
	dir := rdmatest.Root(t, "soft")
	m, err := fixture.Load("soft")
	must.NoError(t, err)
	needs.Root(t, "device nodes")
	must.NoError(t, m.MakeNodes(dir))
	look := func() string {
		r, err := Diagnose(t.Context(), Open(dir))
		must.NoError(t, err)
		return render(t, r)
	}
	test.StrContains(t, look(), "9 nodes in /dev/infiniband, as in the kernel", test.Sprint("well nodes"))
	nodes := filepath.Join(dir, "dev/infiniband")
	must.NoError(t, os.Rename(filepath.Join(nodes, "uverbs1"), filepath.Join(nodes, "uverbs0")))
	text := look()
	for _, want := range []string{"/dev/infiniband/uverbs0 (is 231:193, the kernel has 231:192)", "node-missing"} {
		test.StrContains(t, text, want, test.Sprint("no"))
	}
}

// rdmamap itself agrees on machines whose devices can be read.
func TestSecondOpinion(t *testing.T) {
	for _, machine := range []string{"soft", "mlx4-dual-port", "smi-multiplane"} {
		dir := rdmatest.Root(t, machine)
		oracle, err := rdmamap.Open(dir)
		must.NoError(t, err)
		h := &Host{Root: os.DirFS(dir).(fs.ReadLinkFS), Sys: os.DirFS(filepath.Join(dir, "sys")).(fs.ReadLinkFS),
			SecondOpinion: oracle}
		r, err := Diagnose(t.Context(), h)
		must.NoError(t, err)
		test.StrContains(t, render(t, r), "rdmamap-agrees", test.Sprint(machine))
	}
}

// A diagnosis of a large host asks rdmamap, whose time is quadratic, about some
// devices only, and says so.
func TestSecondOpinionOfLargeHost(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 9: 9, 64: 64, 128: 32, 1016: 8} {
		test.Eq(t, want, toCompare(n), test.Sprintf("of %d devices", n))
	}
	m, err := fixture.Large(128)
	must.NoError(t, err)
	sys := m.OpenFS()
	o := &counting{opinion: agreeing(t, sys)}
	r, err := Diagnose(t.Context(), &Host{Root: os.DirFS(t.TempDir()).(fs.ReadLinkFS), Sys: sys, SecondOpinion: o})
	must.NoError(t, err)
	if o.asked != 32 || !strings.Contains(render(t, r), "rdmamap: nodes of 96 of 128 devices") {
		t.Errorf("rdmamap was asked %d times, and the report is\n%s", o.asked, render(t, r))
	}
}

// counting counts questions.
type counting struct {
	opinion
	asked int
}

func (c *counting) CharDevices(ibdev string) ([]string, error) {
	c.asked++
	return c.opinion.CharDevices(ibdev)
}

// A directory without a sysfs is no host.
func TestNoHost(t *testing.T) {
	if _, err := Diagnose(t.Context(), Open(t.TempDir())); err == nil || !strings.Contains(err.Error(), "diagnose host") {
		t.Errorf("got %v", err)
	}
}

// A diagnosis that is interrupted says so.
func TestInterrupted(t *testing.T) {
	f := newFake(t, "soft")
	f.diagnose()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Diagnose(ctx, &f.host); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Programs give their output, or the reason why they do not.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	script(t, filepath.Join(dir, "podman"), "echo podman version 5.4.2")
	script(t, filepath.Join(dir, "crio"), "echo 'no such thing' >&2; exit 3")
	if out, err := run(t.Context(), "podman", "--version"); err != nil || out != "podman version 5.4.2\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := run(t.Context(), "crio", "--version"); err == nil || err.Error() != `"no such thing"` {
		t.Errorf("got %v", err)
	}
}

func script(t *testing.T, name, body string) {
	t.Helper()
	write(t, name, "#!/bin/sh\n"+body+"\n")
	must.NoError(t, os.Chmod(name, 0o755))
}

func write(t *testing.T, name, content string) {
	t.Helper()
	must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)))
}
