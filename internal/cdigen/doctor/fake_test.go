package doctor

import (
	"context"
	"io/fs"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// fake is a host in memory: a fixture machine for /sys, and the rest as a healthy
// host with containerd and podman has it, into which a test plants a fault.
type fake struct {
	t       testing.TB
	machine *fixture.Machine
	before  *rdma.Snapshot // without faults
	root    fstest.MapFS
	output  map[string]string // of programs
	failing map[string]error
	hidden  []string // files that only root may open
	denied  []string // patterns of paths that cannot be looked at at all
	opinion opinion  // what rdmamap says otherwise
	host    Host
}

const (
	specPath = "/etc/cdi/rdma.dev-hca.yaml"
	hookPath = "/usr/bin/rdma-hook"
)

// newFake makes a healthy host over a machine.
func newFake(t testing.TB, name string) *fake {
	t.Helper()
	shared, err := fixture.Load(name)
	must.NoError(t, err)
	m := fixture.New(name, shared.Description, shared.Tree().Clone()) // to be changed
	f := &fake{t: t, machine: m, root: fstest.MapFS{}, failing: map[string]error{}, output: map[string]string{
		"podman":     "podman version 4.3.1\n",
		"containerd": "containerd github.com/containerd/containerd/v2 v2.2.1 dea7da592f5d1d2b7755e3a161be07f43fad8f75\n",
	}}
	f.opinion.nodes = map[string][]string{}
	f.host = Host{Local: true, UID: 0, Arch: "amd64"}
	if f.before, err = rdma.Discover(shared.OpenFS()); err != nil {
		t.Fatal(err)
	}
	f.sys("fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
	f.node("/dev/null", 1, 3, 0o666)
	for _, n := range m.Nodes() {
		f.node(n.Path(), n.Major, n.Minor, n.Mode)
	}
	f.file("/proc/meminfo", "MemTotal:       528280320 kB\nMemFree:        1000 kB\n")
	f.file("/proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n23 22 0:21 / /run "+
		"rw,nosuid,nodev,noexec shared:2 - tmpfs tmpfs rw\n")
	f.file("/proc/1/comm", "systemd\n")
	f.process(812, "containerd", "unlimited", "unlimited", 0)
	f.limits("self", "unlimited", "unlimited")
	f.dir("/run/cdi", 0o755)
	f.link("/var/run", "/run")
	f.program(hookPath)
	f.kernel()
	var nodes []string
	for _, h := range f.before.HCAs {
		if h.Uverbs != nil {
			nodes = append(nodes, h.Uverbs.Path())
		}
	}
	if slices.Sort(nodes); len(nodes) > 0 {
		f.spec(specPath, cdi.KindHCA, nodes...)
	}
	return f
}

// diagnose reports on the host as it is now.
func (f *fake) diagnose() *Report {
	f.t.Helper()
	r, err := f.tryDiagnose()
	must.NoError(f.t, err)
	return r
}

// tryDiagnose is diagnose of a host whose sysfs may be closed.
func (f *fake) tryDiagnose() (*Report, error) {
	f.t.Helper()
	f.status("self", "cdi-gen", f.host.UID)
	f.host.Root, f.host.Sys = hiding{f.root, "/", f}, hiding{f.machine.OpenFS(), "/sys/", f}
	f.host.Run = func(_ context.Context, name string, _ ...string) (string, error) {
		if err := f.failing[name]; err != nil {
			return "", err
		}
		if out, ok := f.output[name]; ok {
			return out, nil
		}
		return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
	if f.host.NoSecondOpinion == nil {
		o := agreeing(f.t, f.machine.OpenFS())
		maps.Copy(o.nodes, f.opinion.nodes)
		f.host.SecondOpinion = opinion{o.nodes, f.opinion.err}
	}
	return Diagnose(f.t.Context(), &f.host)
}

// opinion is a second opinion from a table.
type opinion struct {
	nodes map[string][]string // by ibdev
	err   error
}

func (o opinion) Devices() ([]string, error)                 { return slices.Sorted(maps.Keys(o.nodes)), o.err }
func (o opinion) CharDevices(ibdev string) ([]string, error) { return o.nodes[ibdev], nil }

// agreeing is the opinion that our own index has.
func agreeing(t testing.TB, sys fs.ReadLinkFS) opinion {
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	o := opinion{nodes: map[string][]string{}}
	for _, h := range snap.HCAs {
		nodes := []string{"/dev/infiniband/rdma_cm"}
		for _, n := range h.MADs {
			nodes = append(nodes, n.Path())
		}
		if h.Uverbs != nil {
			nodes = append(nodes, h.Uverbs.Path())
		}
		o.nodes[h.IBDev] = nodes
	}
	return o
}

// hiding denies some files below a directory, as to a user other than root.
type hiding struct {
	fs.ReadLinkFS
	at string
	*fake
}

// classOf matches the path of a device to which a class has a link.
var classOf = regexp.MustCompile("^/sys/devices/.*/(infiniband[a-z_]*|net)/")

// refuse returns an error for a path that is denied.
func (h hiding) refuse(op, name string) error {
	at := classOf.ReplaceAllString(h.at+name, "/sys/class/$1/")
	isIn := func(look string) bool {
		return finding.Overlap(look, at) && strings.Count(at, "/") >= strings.Count(look, "/")
	}
	if slices.ContainsFunc(h.denied, isIn) || op == "open" && slices.Contains(h.hidden, at) {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EACCES}
	}
	return nil
}

func (h hiding) Open(name string) (fs.File, error) {
	if err := h.refuse("open", name); err != nil {
		return nil, err
	}
	return h.ReadLinkFS.Open(name)
}

func (h hiding) Lstat(name string) (fs.FileInfo, error) {
	if err := h.refuse("lstat", name); err != nil {
		return nil, err
	}
	return h.ReadLinkFS.Lstat(name)
}

func (h hiding) ReadLink(name string) (string, error) {
	if err := h.refuse("readlink", name); err != nil {
		return "", err
	}
	return h.ReadLinkFS.ReadLink(name)
}
