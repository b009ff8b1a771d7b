package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// programs builds what is measured as it is released, and the floors as one builds programs,
// and returns their directory. The empty driver is there once more, built as ours ("pruned").
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench-bin-")
	if err != nil {
		return "", err
	}
	const released = "-tags=grpcnotrace" // as the Makefile has it
	for _, args := range [][]string{
		{"-C", "../..", "build", released, "-o", dir + "/", "./cmd/..."},
		{"build", "-o", dir + "/", "./empty", "./nothing"},
		{"build", released, "-o", filepath.Join(dir, "empty-pruned"), "./empty"},
	} {
		verb := slices.Index(args, "build") + 1
		cmd := exec.Command("go", slices.Insert(args, verb, "-trimpath", "-ldflags=-s -w")...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	return dir, nil
})

// program is the path of one of them.
func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := programs()
	must.NoError(t, err)
	return filepath.Join(dir, name)
}

// machine is a host with so many RoCE functions.
func machine(t testing.TB, functions int) *fixture.Machine {
	t.Helper()
	m, err := fixture.Large(functions)
	must.NoError(t, err)
	return m
}

// disk is where the kubelet's directory is made.
var disk = flag.String("disk", "/var/tmp", "a directory with a short path, on the disk that the kubelet's directory shall be on")

// diskDir is a temporary directory on that disk.
func diskDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(*disk, "bench-")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// side is a node with one of the drivers that are compared.
type side struct {
	*drivertest.Node
	name    string
	command []string
	driver  *drivertest.Process
}

func newSide(t testing.TB, name string, host *drivertest.Host) *side {
	t.Helper()
	worker := drivertest.WorkerOf(t, host, drivertest.NewKubeletAt(t, diskDir(t)))
	return &side{name: name, Node: &drivertest.Node{Worker: worker, API: drivertest.NewAPI(t)}}
}

// ours is the node of the driver, with the default settings of the program.
func ours(t testing.TB, m *fixture.Machine) *side {
	t.Helper()
	host := drivertest.NewHost(t, "none")
	host.Become(t, m)
	s := newSide(t, "ours", host)
	s.command = append([]string{program(t, "dra-driver")}, s.Args(t, "")...)
	return s
}

// emptyLike is the node of the driver that does nothing, with the slices of another side.
func emptyLike(t testing.TB, other *side) *side {
	t.Helper()
	s := newSide(t, "empty", other.Host)
	s.command = s.emptyCommand(t, other.Slices(), drivertest.NodeName, s.Kubeconfig(t))
	return s
}

// emptyCommand runs the driver that does nothing, with slices like those of another.
func (s *side) emptyCommand(t testing.TB, like []resourceapi.ResourceSlice, node, kubeconfig string) []string {
	t.Helper()
	var published []resourceslice.Slice
	for _, o := range like {
		published = append(published, resourceslice.Slice{Devices: o.Spec.Devices, SharedCounters: o.Spec.SharedCounters})
	}
	file := filepath.Join(s.Dir, "slices.json")
	data, err := json.Marshal(published)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(file, data, 0o600))
	return []string{program(t, "empty"), "--node-name", node, "--kubelet-dir", s.Dir, "--kubeconfig", kubeconfig, "--slices", file}
}

// start starts the driver, and waits until the kubelet has registered it and all
// devices are published.
func (s *side) start(t testing.TB, devices int) {
	t.Helper()
	s.driver = drivertest.StartProgram(t, s.command...)
	s.WaitForPlugins(1)
	s.waitForDevices(t, devices)
}

func (s *side) waitForDevices(t testing.TB, want int) {
	t.Helper()
	drivertest.Eventually(t, func() error { return wantDevices(s.Slices(), want) })
}

// wantDevices says what is missing in slices.
func wantDevices(published []resourceapi.ResourceSlice, want int) error {
	have := 0
	for _, slice := range published {
		have += len(slice.Spec.Devices)
	}
	if have != want {
		return fmt.Errorf("%d devices are published, want %d", have, want)
	}
	return nil
}

// newPair starts both drivers with so many devices, and returns the names of the devices.
// The drivers get the environment besides.
func newPair(t testing.TB, devices int, environment ...string) (pair []*side, names []string) {
	t.Helper()
	m := machine(t, devices)
	first := ours(t, m)
	first.command = append(append([]string{"/usr/bin/env"}, environment...), first.command...)
	first.start(t, devices)
	second := emptyLike(t, first)
	second.command = append(append([]string{"/usr/bin/env"}, environment...), second.command...)
	second.start(t, devices)
	return []*side{first, second}, deviceNames(t, m)
}

// deviceNames are what the devices of a machine are called in slices.
func deviceNames(t testing.TB, m *fixture.Machine) []string {
	t.Helper()
	var names []string
	for _, h := range rdmatest.Discover(t, m).HCAs {
		names = append(names, h.Name)
	}
	return names
}

// prepare and unprepare fail the benchmark with what the driver says.
func (s *side) prepare(t testing.TB, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	response, err := s.Prepare(t.Context(), claims...)
	must.NoError(t, err, must.Sprint(s.name))
	for _, c := range claims {
		if message := response.Claims[string(c.UID)].GetError(); message != "" || len(response.Claims[string(c.UID)].GetDevices()) == 0 {
			t.Fatalf("%s: claim %s: %s", s.name, c.Name, message)
		}
	}
}

func (s *side) unprepare(t testing.TB, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	response, err := s.Unprepare(t.Context(), claims...)
	must.NoError(t, err, must.Sprint(s.name))
	for uid, c := range response.Claims {
		if c.Error != "" {
			t.Fatalf("%s: claim %s: %s", s.name, uid, c.Error)
		}
	}
}
