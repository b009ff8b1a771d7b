package nri_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// handler notes what it is told.
type handler struct {
	mu      sync.Mutex
	told    []string
	refuse  error
	memlock *uint64
	env     map[string]string
	seen    nri.Container
}

func (h *handler) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

func (h *handler) Started(_ context.Context, p nri.Pod) error {
	h.note("started %s %s/%s in %q", p.UID, p.Namespace, p.Name, p.Netns)
	return h.refuse
}
func (h *handler) OnHost(pods []nri.Pod) {
	for _, p := range pods {
		h.note("on the host %s", p.UID)
	}
}
func (h *handler) Stopped(_ context.Context, p nri.Pod) { h.note("stopped %s", p.UID) }
func (h *handler) Running(_ context.Context, pods []nri.Pod) {
	for _, p := range pods {
		h.note("running %s in %q", p.UID, p.Netns)
	}
}
func (h *handler) Adjust(_ context.Context, _ nri.Pod, c nri.Container) nri.Adjustment {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = c
	return nri.Adjustment{Memlock: h.memlock, Env: h.env}
}

// says waits for a line.
func (h *handler) says(t *testing.T, line string) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if all := strings.Join(h.told, "\n"); !strings.Contains(all, line) {
			return fmt.Errorf("told was %q, want %q", all, line)
		}
		return nil
	})
}

// pod is what a runtime tells of one.
func pod(uid, netns string) *api.PodSandbox {
	p := &api.PodSandbox{Id: "id-" + uid, Uid: uid, Namespace: "team-a", Name: "name-" + uid,
		Linux: &api.LinuxPodSandbox{}}
	p.Linux.Namespaces = []*api.LinuxNamespace{{Type: "ipc", Path: "/proc/1/ns/ipc"}}
	if netns != "" {
		p.Linux.Namespaces = append(p.Linux.Namespaces, &api.LinuxNamespace{Type: "network", Path: netns})
	}
	return p
}

// startRuntime starts NRI as container runtimes have it, with one pod.
func startRuntime(socket, dir string) (*adaptation.Adaptation, error) {
	synchronize := func(ctx context.Context, deliver adaptation.SyncCB) error {
		host := pod("host", "")
		host.Pid = 7
		pods := []*api.PodSandbox{pod("old", "/run/netns/old"), host, pod("of-containers", ""), pod("ended", "")}
		_, err := deliver(ctx, pods, []*api.Container{
			{Id: "c", PodSandboxId: "id-of-containers", Name: "main"},
			{Id: "1", PodSandboxId: "id-old", Name: "main", State: api.ContainerState_CONTAINER_RUNNING,
				CDIDevices: []*api.CDIDevice{{Name: "rdma.dev/claim=a"}}},
			{Id: "2", PodSandboxId: "id-ended", Name: "main", State: api.ContainerState_CONTAINER_STOPPED},
			{Id: "3", PodSandboxId: "id-unknown", Name: "main", State: api.ContainerState_CONTAINER_RUNNING},
		})
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	r, err := adaptation.New("test", "1", synchronize, update, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	if err != nil {
		return nil, err
	}
	return r, r.Start()
}

// runtimeSocket in the environment makes this program a runtime.
const runtimeSocket = "NRI_TEST_RUNTIME_SOCKET"

func TestMain(m *testing.M) {
	socket := os.Getenv(runtimeSocket)
	if socket == "" {
		os.Exit(m.Run())
	}
	if _, err := startRuntime(socket, filepath.Join(filepath.Dir(socket), "plugins")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // until it is killed
}

// runtimeProcess starts a runtime that can be killed.
func runtimeProcess(t *testing.T, socket string) (kill func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), runtimeSocket+"="+socket)
	cmd.Stderr = t.Output()
	must.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return kill
}

// connect runs a plugin until the test ends, and returns what it reports.
func connect(t *testing.T, h nri.Handler, socket string) (*nri.Plugin, <-chan error) {
	t.Helper()
	reports := make(chan error, 100)
	p := &nri.Plugin{Socket: socket, Name: "test", Handler: h, Report: func(err error) { reports <- err }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return p, reports
}

// TestPlugin: what a runtime says arrives, an error ends the sandbox, and a limit gets into the
// container's spec.
func TestPlugin(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	runtime, err := startRuntime(socket, t.TempDir())
	must.NoError(t, err)
	defer runtime.Stop()
	limit := uint64(1 << 30)
	h := &handler{memlock: &limit, env: map[string]string{"RDMA_GID_INDEX_X": "3"}}
	p, reports := connect(t, h, socket)
	if err := <-reports; err != nil || !p.Connected() || p.Trouble() != nil {
		t.Fatalf("connected %t, %v, %v", p.Connected(), err, p.Trouble())
	}
	h.says(t, `running old in "/run/netns/old"`)
	// A plugin is told of the first pod after it has answered. Runtimes do the same before they
	// make a sandbox, so that none comes in between.
	runtime.BlockPluginSync().Unblock()
	ctx := t.Context()
	test.NoError(t, runtime.RunPodSandbox(ctx, &adaptation.RunPodSandboxRequest{Pod: pod("a", "/run/netns/a")}))
	h.says(t, `started a team-a/name-a in "/run/netns/a"`)
	h.refuse = errors.New("the device is away")
	test.ErrorContains(t, runtime.RunPodSandbox(ctx, &adaptation.RunPodSandboxRequest{Pod: pod("b", "")}), "the device is away",
		test.Sprint("a sandbox that was refused"))
	h.says(t, `started b team-a/name-b in ""`)
	test.NoError(t, runtime.StopPodSandbox(ctx, &adaptation.StopPodSandboxRequest{Pod: pod("a", "/run/netns/a")}))
	h.says(t, "stopped a")

	soft := uint64(64 << 10)
	response, err := runtime.CreateContainer(ctx,
		&adaptation.CreateContainerRequest{Pod: pod("a", ""), Container: &api.Container{
			Id: "c", Name: "hca", Env: []string{"A=b"}, Rlimits: []*api.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 1, Soft: 1},
				{Type: "RLIMIT_MEMLOCK", Hard: 1 << 20, Soft: soft}},
			Hooks: &api.Hooks{CreateRuntime: []*api.Hook{{Path: "/opt/hook", Args: []string{"hook", "--flag"}}}},
		}})
	must.NoError(t, err)
	got := response.GetAdjust().GetRlimits()
	if len(got) != 1 || got[0].GetType() != "RLIMIT_MEMLOCK" || got[0].GetHard() != limit || got[0].GetSoft() != limit {
		t.Errorf("limits are %v", got)
	}
	env := response.GetAdjust().GetEnv()
	if len(env) != 1 || env[0].GetKey() != "RDMA_GID_INDEX_X" || env[0].GetValue() != "3" {
		t.Errorf("variables are %v", env)
	}
	if diff := cmp.Diff(nri.Container{
		Name: "hca", Hooks: [][]string{{"/opt/hook", "hook", "--flag"}}, Memlock: &soft, Env: []string{"A=b"},
	}, h.seen); diff != "" {
		t.Errorf("the container (-want +got):\n%s", diff)
	}
}

// TestSandboxes: the plugin knows which pods have containers that may run, from the connection on until it is lost.
func TestSandboxes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	runtime, err := startRuntime(socket, t.TempDir())
	must.NoError(t, err)
	defer runtime.Stop()
	h := &handler{}
	p, reports := connect(t, h, socket)
	must.NoError(t, <-reports)
	runtime.BlockPluginSync().Unblock()
	want := func(when string, pods map[string]string) {
		t.Helper()
		got := map[string]string{}
		all, known := p.Sandboxes()
		for _, s := range all {
			for _, c := range s.Containers {
				got[s.UID] += c.Name + strings.Join(c.CDIDevices, " ")
			}
		}
		if diff := cmp.Diff(pods, got); diff != "" || !known {
			t.Errorf("%s: known %t (-want +got):\n%s", when, known, diff)
		}
	}
	want("connected", map[string]string{"old": "mainrdma.dev/claim=a", "of-containers": "main"})
	create := func(id string) {
		t.Helper()
		_, err := runtime.CreateContainer(t.Context(),
			&adaptation.CreateContainerRequest{Pod: pod("a", ""), Container: &api.Container{Id: id, Name: "app"}})
		must.NoError(t, err)
	}
	h.env = map[string]string{"RDMA_GID_INDEX_X": "3"}
	create("c1")
	create("c2") // it restarts
	for _, s := range func() []nri.Sandbox { all, _ := p.Sandboxes(); return all }() {
		if s.UID == "a" && !slices.Equal(s.Containers[0].Env, []string{"RDMA_GID_INDEX_X=3"}) {
			t.Errorf("the container has %v, want what it was given", s.Containers[0].Env)
		}
	}
	want("created", map[string]string{"old": "mainrdma.dev/claim=a", "of-containers": "main", "a": "app"})
	must.NoError(t, runtime.StopPodSandbox(t.Context(), &adaptation.StopPodSandboxRequest{Pod: pod("old", "")}))
	must.NoError(t, runtime.RemovePodSandbox(t.Context(), &adaptation.RemovePodSandboxRequest{Pod: pod("a", "")}))
	want("stopped and removed", map[string]string{"of-containers": "main"})
}

// TestReconnect: a runtime without NRI is no error, one that comes or comes back is found.
func TestReconnect(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	h := &handler{}
	p, reports := connect(t, h, socket)
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "has no socket") || p.Connected() ||
		!errors.Is(p.Trouble(), err) {
		t.Errorf("without a runtime: connected %t, %v, %v", p.Connected(), err, p.Trouble())
	}
	for range 2 {
		kill := runtimeProcess(t, socket)
		for err := range reports {
			if err == nil {
				break
			}
		}
		if pods, known := p.Sandboxes(); !known || len(pods) != 2 {
			t.Errorf("connected: known %t, %v", known, pods)
		}
		kill()
		test.Error(t, <-reports, test.Sprint("the runtime has gone, and nobody says so"))
		if pods, known := p.Sandboxes(); known || len(pods) > 0 {
			t.Errorf("after the connection: known %t, %v", known, pods)
		}
		drivertest.Eventually(t, func() error {
			if p.Connected() {
				return errors.New("still connected")
			}
			return nil
		})
	}
}
