package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/capture/tree"
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
	f.host = Host{Local: true, UID: 0, Arch: "amd64"}
	if f.before, err = rdma.Discover(shared.OpenFS()); err != nil {
		t.Fatal(err)
	}
	f.sys("fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
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
	f.dir("/run/cdi")
	f.link("/var/run", "/run")
	f.program(hookPath, elf.EM_X86_64, elf.PT_LOAD)
	f.kernel()
	var nodes []string
	for _, h := range f.before.HCAs {
		if h.Uverbs != nil {
			nodes = append(nodes, h.Uverbs.Path())
		}
	}
	if slices.Sort(nodes); len(nodes) > 0 {
		f.spec(specPath, f.newSpec(cdi.KindHCA, nodes...))
	}
	return f
}

const (
	osrelease = "/proc/sys/kernel/osrelease"
	release   = "6.12.117+deb12-amd64"
)

// kernel puts the tables of modules of a real kernel; testdata/modules/README.md says where they come from.
func (f *fake) kernel() {
	f.file(osrelease, release+"\n")
	for _, name := range []string{"modules.alias", "modules.dep"} {
		data, err := os.ReadFile("testdata/modules/" + name)
		must.NoError(f.t, err)
		f.file("/lib/modules/"+release+"/"+name, string(data))
	}
}

func (f *fake) put(name string, file *fstest.MapFile) {
	f.root[strings.TrimPrefix(name, "/")] = file
}

func (f *fake) file(name, content string) {
	f.put(name, &fstest.MapFile{Data: []byte(content), Mode: 0o644})
}

func (f *fake) dir(name string) { f.put(name, &fstest.MapFile{Mode: fs.ModeDir | 0o755}) }
func (f *fake) link(name, target string) {
	f.put(name, &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777})
}
func (f *fake) remove(name string) { delete(f.root, strings.TrimPrefix(name, "/")) }
func (f *fake) chmod(name string, mode fs.FileMode) {
	file := f.root[strings.TrimPrefix(name, "/")]
	file.Mode = file.Mode.Type() | mode
}

func (f *fake) node(name string, major, minor uint32, mode fs.FileMode) {
	f.put(name, &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | mode,
		Sys: &syscall.Stat_t{Rdev: unix.Mkdev(major, minor)}})
}

// sys puts an attribute into /sys; unsys removes an entry and what is below.
func (f *fake) sys(name, content string) {
	must.NoError(f.t, f.machine.Tree().Replace(tree.Entry{Path: "sys/" + name, Kind: tree.File, Data: content}))
}

func (f *fake) unsys(name string) { f.machine.Tree().Remove("sys/" + name) }

// port sets a file of port 1 of an HCA, wherever its class link leads.
func (f *fake) port(ibdev, name, content string) {
	e, err := f.machine.Tree().Resolve("sys/class/infiniband/" + ibdev)
	must.NoError(f.t, err)
	f.sys(strings.TrimPrefix(e.Path, "sys/")+"/ports/1/"+name, content)
}

// netdev sets a file of a network interface.
func (f *fake) netdev(name, file, content string) {
	e, err := f.machine.Tree().Resolve("sys/class/net/" + name)
	if err != nil {
		f.t.Fatal(err)
	}
	f.sys(strings.TrimPrefix(e.Path, "sys/")+"/"+file, content)
}

func (f *fake) limits(pid, soft, hard string) {
	f.file("/proc/"+pid+"/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"+
		"Max cpu time              unlimited            unlimited            seconds   \n"+
		"Max locked memory         "+soft+"              "+hard+"              bytes     \n")
}

func (f *fake) process(pid int, comm, soft, hard string, uid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	f.file(dir+"/comm", comm+"\n")
	f.status(strconv.Itoa(pid), comm, uid)
	f.limits(strconv.Itoa(pid), soft, hard)
}

// status says who a process is. Root has all capabilities.
func (f *fake) status(pid, comm string, uid int) {
	capabilities := "0000000000000000"
	if uid == 0 {
		capabilities = allCapabilities
	}
	f.file("/proc/"+pid+"/status", fmt.Sprintf("Name:\t%s\nUid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\nNSpid:\t%s\nCapEff:\t%s\n"+
		"CapBnd:\t%s\n", comm, uid, pid, capabilities, allCapabilities))
	f.file("/proc/"+pid+"/uid_map", "         0          0 4294967295\n")
}

const allCapabilities = "000001ffffffffff"

// replace changes a text in a file.
func (f *fake) replace(name, from, to string) {
	data := string(f.root[strings.TrimPrefix(name, "/")].Data)
	must.StrContains(f.t, data, from, must.Sprintf("%s has no", name))
	f.file(name, strings.Replace(data, from, to, 1))
}

// program puts an executable with one segment of that type.
func (f *fake) program(name string, machine elf.Machine, segment elf.ProgType) {
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(header.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		must.NoError(f.t, binary.Write(&b, binary.LittleEndian, part))
	}
	f.put(name, &fstest.MapFile{Data: b.Bytes(), Mode: 0o755})
}

// uverbs lists the paths of the uverbs nodes.
func (f *fake) uverbs() []string {
	var paths []string
	for _, n := range f.machine.Nodes() {
		if strings.HasPrefix(n.Name, "uverbs") {
			paths = append(paths, n.Path())
		}
	}
	return paths
}

// newSpec makes a spec with a device for each node, dev0 and so on, and with the hook
// and rdma_cm for all.
func (f *fake) newSpec(kind string, nodes ...string) *specs.Spec {
	spec := &specs.Spec{Version: "0.3.0", Kind: kind}
	spec.ContainerEdits.Hooks = []*specs.Hook{{HookName: "createRuntime", Path: hookPath,
		Args: []string{"rdma-hook", "--memlock", "unlimited"}}}
	for _, n := range f.machine.Nodes() {
		if n.Name == "rdma_cm" {
			spec.ContainerEdits.DeviceNodes = []*specs.DeviceNode{{Path: n.Path(), Permissions: "rw"}}
		}
	}
	for i, n := range nodes {
		edits := specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: n, Permissions: "rw"}}}
		for _, h := range f.before.HCAs {
			if h.Uverbs != nil && h.Uverbs.Path() == n {
				edits.Env = []string{cdi.DeviceVariable(h.Name) + "=" + h.IBDev}
			}
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: "dev" + strconv.Itoa(i), ContainerEdits: edits})
	}
	return spec
}

func (f *fake) spec(name string, spec *specs.Spec) {
	data, err := cdi.Encode(spec, cdi.Format(path.Ext(name)[1:]))
	must.NoError(f.t, err)
	f.file(name, string(data))
}

// respec changes the host's spec.
func (f *fake) respec(change func(*specs.Spec)) {
	spec := f.newSpec(cdi.KindHCA, f.uverbs()...)
	change(spec)
	f.spec(specPath, spec)
}

// diagnose reports on the host as it is now.
func (f *fake) diagnose() *Report {
	f.t.Helper()
	f.status("self", "cdi-gen", f.host.UID)
	f.host.Root = f.root
	f.host.Sys = f.machine.OpenFS()
	f.host.Run = func(_ context.Context, name string, _ ...string) (string, error) {
		if err := f.failing[name]; err != nil {
			return "", err
		}
		if out, ok := f.output[name]; ok {
			return out, nil
		}
		return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
	if f.host.SecondOpinion == nil && f.host.NoSecondOpinion == nil {
		f.host.SecondOpinion = agreeing(f.t, f.host.Sys)
	}
	r, err := Diagnose(f.t.Context(), &f.host)
	must.NoError(f.t, err)
	return r
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
