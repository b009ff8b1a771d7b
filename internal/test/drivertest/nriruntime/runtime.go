// Package nriruntime is a container runtime as its NRI plugins see it, for tests of the
// driver: NRI's own side of the runtime, with pods, and with connections that can be lost
// after any message.
package nriruntime

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
)

// Runtime has pods, and tells plugins of them. Between it and its plugins is a wire that the
// test can cut.
type Runtime struct {
	// Socket is where plugins connect.
	Socket string

	t     testing.TB
	nri   *adaptation.Adaptation
	inner string // NRI's own socket

	mu       sync.Mutex
	pods     map[string]*api.PodSandbox // by UID
	created  []*api.Container           // as their OCI specs are
	listener net.Listener
	wires    map[net.Conn]bool
	left     int // messages until the wires are cut, negative for never
}

// New starts a runtime. It serves plugins once Up is called.
func New(t testing.TB) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // short: it is the path of a socket
	must.NoError(t, err)
	r := &Runtime{
		Socket: filepath.Join(dir, "nri.sock"), inner: filepath.Join(dir, "inner.sock"), t: t,
		pods: map[string]*api.PodSandbox{}, wires: map[net.Conn]bool{}, left: -1,
	}
	r.nri, err = adaptation.New("test", "1", r.synchronize,
		func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(r.inner), adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	if err == nil {
		err = r.nri.Start()
	}
	must.NoError(t, err)
	t.Cleanup(func() {
		r.Down()
		r.nri.Stop()
		os.RemoveAll(dir)
	})
	return r
}

func (r *Runtime) synchronize(ctx context.Context, deliver adaptation.SyncCB) error {
	r.mu.Lock()
	pods, containers := slices.Collect(maps.Values(r.pods)), slices.Clone(r.created)
	r.mu.Unlock()
	_, err := deliver(ctx, pods, containers)
	return err
}

// Up serves plugins, as a runtime that was started.
func (r *Runtime) Up() {
	r.t.Helper()
	l, err := net.Listen("unix", r.Socket)
	must.NoError(r.t, err)
	r.mu.Lock()
	r.listener, r.left = l, -1
	r.mu.Unlock()
	go func() {
		for {
			plugin, err := l.Accept()
			if err != nil {
				return // Down
			}
			r.connect(plugin)
		}
	}()
}

// connect lays a wire from a plugin to NRI.
func (r *Runtime) connect(plugin net.Conn) {
	own, err := net.Dial("unix", r.inner)
	if err != nil {
		plugin.Close()
		return
	}
	r.mu.Lock()
	r.wires[plugin], r.wires[own] = true, true
	r.mu.Unlock()
	go r.pass(plugin, own)
	go r.pass(own, plugin)
}

// pass passes messages on until the wire is cut.
func (r *Runtime) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || r.cuts() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cuts reports whether a message is the one at which the wires are cut, and cuts them.
func (r *Runtime) cuts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < 0 {
		return false
	}
	if r.left--; r.left >= 0 {
		return false
	}
	r.cutAll()
	return true
}

func (r *Runtime) cutAll() {
	for wire := range r.wires {
		wire.Close()
	}
	clear(r.wires)
}

// CutAfter has the wires cut at the message after the next n. Those that plugins lay then
// are whole.
func (r *Runtime) CutAfter(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = n
}

// WasCut reports whether that has happened, and has it happen no more.
func (r *Runtime) WasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.left < 0
	r.left = -1
	return was
}

// Down ends the runtime: its pods live on.
func (r *Runtime) Down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		r.listener.Close()
	}
	r.cutAll()
}

// sandbox is what a runtime says of a pod.
func sandbox(p nri.Pod) *api.PodSandbox {
	s := &api.PodSandbox{Id: "sandbox-" + p.UID, Uid: p.UID, Namespace: p.Namespace, Name: p.Name, Linux: &api.LinuxPodSandbox{}}
	if p.Netns != "" {
		s.Linux.Namespaces = []*api.LinuxNamespace{{Type: "network", Path: p.Netns}}
	}
	return s
}

// Run starts a pod. It goes on without a plugin that it lost. As with containerd and CRI-O, a plugin
// that connects meanwhile is told either of the pod or of its start.
func (r *Runtime) Run(ctx context.Context, p nri.Pod) error {
	defer r.nri.BlockPluginSync().Unblock()
	r.mu.Lock()
	r.pods[p.UID] = sandbox(p)
	r.mu.Unlock()
	err := r.nri.RunPodSandbox(ctx, &adaptation.RunPodSandboxRequest{Pod: sandbox(p)})
	if err != nil {
		r.Forget(p)
	}
	return err
}

// Create creates a container with variables, and returns those that plugins add. It replaces a container of the name.
func (r *Runtime) Create(ctx context.Context, p nri.Pod, name string, env ...string) (added []string, err error) {
	c := &api.Container{
		Id: p.UID + "-" + name, PodSandboxId: sandbox(p).GetId(), Name: name, Env: env,
		State: api.ContainerState_CONTAINER_RUNNING,
	}
	defer r.nri.BlockPluginSync().Unblock()
	answer, err := r.nri.CreateContainer(ctx, &adaptation.CreateContainerRequest{Pod: sandbox(p), Container: c})
	if err != nil {
		return nil, err
	}
	for _, v := range answer.GetAdjust().GetEnv() {
		added = append(added, v.GetKey()+"="+v.GetValue())
	}
	slices.Sort(added)
	c.Env = slices.Concat(env, added)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created = slices.DeleteFunc(r.created, func(o *api.Container) bool { return o.GetId() == c.GetId() })
	r.created = append(r.created, c)
	return added, nil
}

// Stop stops a pod.
func (r *Runtime) Stop(ctx context.Context, p nri.Pod) error {
	return r.nri.StopPodSandbox(ctx, &adaptation.StopPodSandboxRequest{Pod: sandbox(p)})
}

// Remove removes a pod.
func (r *Runtime) Remove(ctx context.Context, p nri.Pod) error {
	r.Forget(p)
	return r.nri.RemovePodSandbox(ctx, &adaptation.RemovePodSandboxRequest{Pod: sandbox(p)})
}

// Forget deletes a pod and does not tell the plugins.
func (r *Runtime) Forget(p nri.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, p.UID)
}
