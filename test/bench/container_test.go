package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	runtimespec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// BenchmarkHook is the hook as a container runtime runs it, over a program that does
// nothing.
func BenchmarkHook(b *testing.B) {
	const rounds = 300
	reports := drivertest.TempDir(b)
	state := filepath.Join(reports, "state")
	n := 0
	ours, empty := compare(b, rounds,
		func() *exec.Cmd {
			n++ // every container has an ID, and a report, of its own
			text := fmt.Sprintf(`{"ociVersion":"1.0.2","id":"bench%d","status":"creating","pid":%d,"bundle":"/b","annotations":{}}`, n, os.Getpid())
			must.NoError(b, os.WriteFile(state, []byte(text), 0o600))
			return hooked(b, state, program(b, "rdma-hook"), "--memlock", "1Mi", "--on-denied", "ignore", "--report", reports)
		},
		func() *exec.Cmd { return hooked(b, state, program(b, "nothing")) })
	f := ours.figures()
	f["added-ns"] = ours.median() - empty.median()
	report(b, "driver=ours", f)
	report(b, "driver=empty", empty.figures())
}

// hooked is a command with a container's state as its input, and the environment that
// specs give the hook.
func hooked(b *testing.B, state, path string, args ...string) *exec.Cmd {
	b.Helper()
	in, err := os.Open(state)
	must.NoError(b, err)
	b.Cleanup(func() { in.Close() })
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Env = in, []string{"GOMAXPROCS=1"}
	return cmd
}

// BenchmarkContainer is create and start of a container by runc, with the edits of a
// prepared claim, hook included, and without.
func BenchmarkContainer(b *testing.B) {
	const rounds = 40
	if _, err := exec.LookPath("runc"); err != nil {
		needs.Missing(b, fmt.Errorf("%w: `go -C test/cluster run ./cmd/cluster build` prints a PATH with it", err))
	}
	s := ours(b, machine(b, 8))
	hookDir, reports := drivertest.TempDir(b), drivertest.TempDir(b)
	s.command = append(s.command, "--hook-dir", hookDir, "--hook-report-dir", reports)
	s.start(b, 8)
	claim := drivertest.Claim(1, deviceNames(b, machine(b, 8))[0])
	s.AddClaim(claim)
	response, err := s.Prepare(b.Context(), claim)
	must.NoError(b, err)
	with := newContainer(b, "with")
	with.inject(b, s, response.Claims[string(claim.UID)].GetDevices()[0].CdiDeviceIds)
	with.write(b)
	without := newContainer(b, "without")
	without.write(b)
	of := map[*container]times{}
	for round := range rounds {
		inTurn(round, []*container{with, without}, func(c *container) {
			of[c] = append(of[c], took(func() { c.runc(b, "create", "--bundle", c.dir, c.id); c.runc(b, "start", c.id) }))
			c.runc(b, "delete", "--force", c.id)
		})
	}
	f := of[with].figures()
	f["added-ns"] = of[with].median() - of[without].median()
	report(b, "driver=ours", f)
	report(b, "driver=empty", of[without].figures())
}

// container is a bundle of runc.
type container struct {
	dir, root, id string
	spec          *runtimespec.Spec
}

// newContainer makes a bundle with a program that does nothing.
func newContainer(b *testing.B, name string) *container {
	b.Helper()
	c := &container{dir: drivertest.TempDir(b), root: drivertest.TempDir(b), id: fmt.Sprintf("bench-%d-%s", os.Getpid(), name)}
	data, err := os.ReadFile(program(b, "nothing"))
	must.NoError(b, err)
	must.NoError(b, os.MkdirAll(filepath.Join(c.dir, "rootfs", "proc"), 0o755))
	must.NoError(b, os.Mkdir(filepath.Join(c.dir, "rootfs", "dev"), 0o755))
	must.NoError(b, os.WriteFile(filepath.Join(c.dir, "rootfs", "nothing"), data, 0o755))
	c.spec = &runtimespec.Spec{
		Version: "1.0.2",
		Process: &runtimespec.Process{Cwd: "/", Args: []string{"/nothing"}},
		Root:    &runtimespec.Root{Path: "rootfs"},
		Mounts: []runtimespec.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
		},
		Linux: &runtimespec.Linux{},
	}
	for _, kind := range []runtimespec.LinuxNamespaceType{runtimespec.PIDNamespace, runtimespec.MountNamespace, runtimespec.IPCNamespace, runtimespec.UTSNamespace, runtimespec.NetworkNamespace} {
		c.spec.Linux.Namespaces = append(c.spec.Linux.Namespaces, runtimespec.LinuxNamespace{Type: kind})
	}
	return c
}

// inject edits the container as a runtime does. The nodes of the host are those of a
// fixture, so their paths get its root before them.
func (c *container) inject(b *testing.B, s *side, ids []string) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(s.CDIDir, "*.json"))
	if err != nil || len(files) != 1 {
		b.Fatalf("the CDI specs are %v, error %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	must.NoError(b, err)
	var spec specs.Spec
	must.NoError(b, json.Unmarshal(data, &spec))
	rooted := func(edits *specs.ContainerEdits) {
		for _, node := range edits.DeviceNodes {
			node.HostPath = filepath.Join(s.Root, node.Path)
		}
	}
	rooted(&spec.ContainerEdits)
	for i := range spec.Devices {
		rooted(&spec.Devices[i].ContainerEdits)
	}
	spec.Version = specs.CurrentVersion // this version has hostPath
	if data, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(filepath.Join(c.root, "spec.json"), data, 0o600)
	}
	must.NoError(b, err)
	cache, err := cdi.NewCache(cdi.WithSpecDirs(c.root), cdi.WithAutoRefresh(false))
	must.NoError(b, err)
	_, err = cache.InjectDevices(c.spec, ids...)
	must.NoError(b, err)
	if c.spec.Hooks == nil || len(c.spec.Linux.Devices) == 0 {
		b.Fatalf("the container has no hook or no device: %+v", c.spec)
	}
}

func (c *container) write(b *testing.B) {
	b.Helper()
	data, err := json.Marshal(c.spec)
	must.NoError(b, err)
	must.NoError(b, os.WriteFile(filepath.Join(c.dir, "config.json"), data, 0o600))
}

// runc runs runc; what it says goes to a file, which a container may hold open.
func (c *container) runc(b *testing.B, args ...string) {
	b.Helper()
	cmd := exec.Command("runc", append([]string{"--root", filepath.Join(c.root, "state"), "--log", filepath.Join(c.root, "log")}, args...)...)
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(c.root, "log"))
		b.Fatalf("runc %v: %v\n%s", args, err, log)
	}
}
