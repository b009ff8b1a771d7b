package nri

import (
	"maps"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// Sandbox is a pod with its containers. Each of the containers may be running.
type Sandbox struct {
	Pod
	Containers []Container
}

// Sandboxes returns the pods whose containers may be running, and reports whether the list is complete. The runtime
// lists all pods on each connection, and then reports each change. Without a connection the list is not complete.
func (p *Plugin) Sandboxes() (pods []Sandbox, known bool) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	for _, s := range p.running.pods {
		pods = append(pods, Sandbox{s.pod, slices.Collect(maps.Values(s.containers))})
	}
	return pods, p.running.known
}

// running contains the pods of the present connection with their containers.
type running struct {
	mu    sync.Mutex
	known bool
	pods  map[string]*sandbox // by the ID of the sandbox
}

type sandbox struct {
	pod        Pod
	containers map[string]Container // by name: a new container replaces the previous one of its name
}

// set replaces all pods. It skips ended containers, because runtimes list these too.
func (r *running) set(pods []*api.PodSandbox, containers []*api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.pods = true, map[string]*sandbox{}
	by := map[string]*api.PodSandbox{}
	for _, p := range pods {
		by[p.GetId()] = p
	}
	for _, c := range containers {
		if pod := by[c.GetPodSandboxId()]; pod != nil && c.GetState() != api.ContainerState_CONTAINER_STOPPED {
			r.put(pod, c)
		}
	}
}

func (r *running) add(pod *api.PodSandbox, c *api.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(pod, c)
}

func (r *running) put(pod *api.PodSandbox, c *api.Container) {
	if r.pods == nil {
		r.pods = map[string]*sandbox{}
	}
	s := r.pods[pod.GetId()]
	if s == nil {
		s = &sandbox{podOf(pod), map[string]Container{}}
		r.pods[pod.GetId()] = s
	}
	s.containers[c.GetName()] = containerOf(c)
}

// adjusted adds the variables that a new container gets from the plugin. When the runtime lists the container, they are
// in the list.
func (r *running) adjusted(pod *api.PodSandbox, c *api.Container, env map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pods[pod.GetId()]
	if s == nil {
		return // the pod has ended, or the connection was lost
	}
	has := s.containers[c.GetName()]
	has.Env = slices.Clone(has.Env)
	for name, value := range env {
		has.Env = append(has.Env, name+"="+value)
	}
	s.containers[c.GetName()] = has
}

// end removes a pod. The runtime has stopped the pod's containers before its sandbox.
func (r *running) end(pod *api.PodSandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod.GetId())
}

// lose removes all pods, because without a connection nobody reports their end.
func (r *running) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.pods = false, nil
}
