// Package nri is the driver's plugin for the container runtime's Node Resource Interface (github.com/containerd/nri).
// The runtime reports pod sandboxes before their first container, and asks the plugin about each container.
//
// The plugin is optional. A runtime without NRI has no socket, and this is no error: [Plugin.Run] retries, with growing
// waits, until there is a socket. The runtime may be restarted or reconfigured at any time. Callers must fail closed by
// other means: a runtime continues without a plugin that it has lost, or that took longer than two seconds.
//
// On each connection the runtime first lists its present pods, so that the driver can catch up on missed events.
package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// DefaultSocket is the default socket of containerd and CRI-O.
const DefaultSocket = api.DefaultSocketPath

// index sets the order of plugins. The plugin runs after the usual site policies, so that it sees their limits.
const index = "90"

// Pod is a pod's sandbox.
type Pod struct {
	UID, Namespace, Name string
	// Netns is the path of its network namespace. It is empty for a pod with the host's network.
	Netns string
}

// Container is a container that is about to be created.
type Container struct {
	Name string
	// Hooks are the command lines of its createRuntime hooks: the path, then the arguments.
	Hooks [][]string
	// Memlock is the soft limit of locked memory in its OCI spec, nil for none.
	Memlock *uint64
	// CDIDevices are the names of its CDI devices, if the runtime reports them.
	CDIDevices []string
	// Env are its environment variables, "NAME=value", with those of its CDI devices.
	Env []string
}

// Adjustment is a change of a new container.
type Adjustment struct {
	// Memlock is the limit of locked memory, nil to leave the limit unchanged.
	Memlock *uint64
	// Env are additional environment variables, by name.
	Env map[string]string
}

// Handler receives the events of the runtime. For one pod, the plugin calls its methods one at a time.
type Handler interface {
	// Started is called when a pod's network is ready, before its first container. An error ends the sandbox, and
	// the kubelet retries with another sandbox.
	Started(context.Context, Pod) error
	// Stopped is called before a pod's network ends. It must be idempotent, because it may be called more than once.
	Stopped(context.Context, Pod)
	// OnHost is called when the runtime is connected, before any other event. Its argument has the running pods with
	// the host's network.
	OnHost([]Pod)
	// Running is called with the present pods when the runtime is connected.
	Running(context.Context, []Pod)
	// Adjust returns the change of a new container.
	Adjust(context.Context, Pod, Container) Adjustment
}

// Plugin connects a handler to the container runtime.
type Plugin struct {
	// Socket is the runtime's socket. Name is the plugin's name, which must be unique on the node.
	Socket, Name string
	Handler      Handler
	// Report is called at each change: with nil when the plugin is connected, else with the reason why it is not.
	Report func(error)

	connected atomic.Bool
	why       atomic.Pointer[error] // the plugin is not connected
	running   running
}

// Connected reports whether the runtime has the plugin.
func (p *Plugin) Connected() bool { return p.connected.Load() }

// Trouble returns why the runtime does not have the plugin, or nil if it has.
func (p *Plugin) Trouble() error {
	if p.Connected() {
		return nil
	}
	if why := p.why.Load(); why != nil {
		return *why
	}
	return errStarting
}

var errStarting = errors.New("connect to NRI: the container runtime has not answered yet")

// The shortest and the longest wait between two attempts to connect.
const (
	minWait = time.Second
	maxWait = 30 * time.Second
)

// Run keeps the plugin connected until ctx ends. It connects again after each loss of the connection.
func (p *Plugin) Run(ctx context.Context) {
	said, backoff := "", loop.NewBackoff(minWait, maxWait)
	for {
		err := p.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		p.why.Store(&err)
		p.running.lose()
		if p.connected.Swap(false) {
			said = ""
			backoff.Reset()
		}
		if err.Error() != said {
			said = err.Error()
			p.Report(err)
		}
		if !loop.Sleep(ctx, backoff.Next()) {
			return
		}
	}
}

// serve connects once, and returns the reason for the end of the connection.
func (p *Plugin) serve(ctx context.Context) error {
	if _, err := os.Stat(p.Socket); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("connect to NRI: the container runtime has no socket %q: it has no NRI, or NRI is disabled in "+
			"its configuration", p.Socket)
	}
	s, err := stub.New(&events{p}, stub.WithPluginName(p.Name), stub.WithPluginIdx(index), stub.WithLogger(quiet{}),
		stub.WithDialer(func(string) (net.Conn, error) { return net.Dial("unix", p.Socket) }), stub.WithOnClose(func() {}))
	if err != nil {
		return fmt.Errorf("make the NRI plugin %q: %w", p.Name, err)
	}
	if err := s.Run(ctx); err != nil {
		return fmt.Errorf("serve NRI at %q: %w", p.Socket, err)
	}
	return fmt.Errorf("serve NRI at %q: the container runtime closed the connection", p.Socket)
}

// events has the methods that the runtime calls. The stub subscribes to the events that have a method here.
type events struct{ p *Plugin }

func (e *events) Synchronize(ctx context.Context, pods []*api.PodSandbox,
	containers []*api.Container) ([]*api.ContainerUpdate, error) {
	e.p.running.set(pods, containers)
	e.p.connected.Store(true)
	e.p.Report(nil)
	var all, onHost []Pod
	for _, pod := range pods {
		p := podOf(pod)
		all = append(all, p)
		if p.Netns == "" && runs(pod, containers) {
			onHost = append(onHost, p)
		}
	}
	e.p.Handler.OnHost(onHost)
	// Do not wait: the runtime stops its other work meanwhile, and gives up after two seconds.
	go e.p.Handler.Running(context.WithoutCancel(ctx), all)
	return nil, nil
}

func (e *events) RunPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return e.p.Handler.Started(ctx, podOf(pod))
}

func (e *events) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	e.p.running.end(pod)
	e.p.Handler.Stopped(ctx, podOf(pod))
	return nil
}

func (e *events) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	e.p.running.end(pod)
	e.p.Handler.Stopped(ctx, podOf(pod))
	return nil
}

func (e *events) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment,
	[]*api.ContainerUpdate, error) {
	e.p.running.add(pod, c)
	want := e.p.Handler.Adjust(ctx, podOf(pod), containerOf(c))
	if want.Memlock == nil && len(want.Env) == 0 {
		return nil, nil, nil
	}
	adjustment := &api.ContainerAdjustment{}
	if want.Memlock != nil {
		adjustment.AddRlimit(rlimitMemlock, *want.Memlock, *want.Memlock)
	}
	for name, value := range want.Env {
		adjustment.AddEnv(name, value)
	}
	e.p.running.adjusted(pod, c, want.Env)
	return adjustment, nil, nil
}

// runs reports whether a sandbox has processes. Runtimes list an ended sandbox without a network namespace, as if it
// had the host's. CRI-O has sandboxes without a process of their own, so runs also looks for containers.
func runs(pod *api.PodSandbox, containers []*api.Container) bool {
	return pod.GetPid() != 0 || slices.ContainsFunc(containers,
		func(c *api.Container) bool { return c.GetPodSandboxId() == pod.GetId() })
}

// Unlimited is RLIM_INFINITY.
const Unlimited uint64 = math.MaxUint64

const rlimitMemlock = "RLIMIT_MEMLOCK"

func podOf(pod *api.PodSandbox) Pod {
	out := Pod{UID: pod.GetUid(), Namespace: pod.GetNamespace(), Name: pod.GetName()}
	for _, ns := range pod.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			out.Netns = ns.GetPath()
		}
	}
	return out
}

func containerOf(c *api.Container) Container {
	out := Container{Name: c.GetName(), Env: c.GetEnv()}
	for _, h := range c.GetHooks().GetCreateRuntime() {
		out.Hooks = append(out.Hooks, append([]string{h.GetPath()}, h.GetArgs()...))
	}
	for _, d := range c.GetCDIDevices() {
		out.CDIDevices = append(out.CDIDevices, d.GetName())
	}
	for _, r := range c.GetRlimits() {
		if r.GetType() == rlimitMemlock {
			soft := r.GetSoft()
			out.Memlock = &soft
		}
	}
	return out
}

// quiet is a logger for the stub that discards all messages. The stub logs each event. The driver's own log contains
// the important ones.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}
