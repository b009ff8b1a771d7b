package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet is the part of a kubelet that a driver meets: it registers the plugins
// whose sockets appear in its directory, in the order of their coming, and calls
// the newest.
type Kubelet struct {
	// Dir is the kubelet's root directory.
	Dir string

	t       testing.TB
	mu      sync.Mutex
	plugins []*plugin
	changed chan struct{} // closed when the plugins change
	pods    []*podresources.PodResources
	held    chan struct{} // nil unless answers about pods are held back
	slow    time.Duration // that each answer about pods takes
	lists   int           // how often somebody asked for them
	asked   error         // what pod resources answers, if not nil
}

// plugin is one registered driver.
type plugin struct {
	socket string // the registration socket
	info   *registerapi.PluginInfo
	conn   *grpc.ClientConn
}

// NewKubelet starts a kubelet with empty directories.
func NewKubelet(t testing.TB) *Kubelet {
	t.Helper()
	return NewKubeletAt(t, TempDir(t))
}

// NewKubeletAt starts a kubelet with an empty root directory of the caller's, whose path
// is short.
func NewKubeletAt(t testing.TB, dir string) *Kubelet {
	t.Helper()
	k := &Kubelet{Dir: dir, t: t, changed: make(chan struct{})}
	for _, dir := range []string{k.registry(), filepath.Join(k.Dir, "plugins", driverName), filepath.Join(k.Dir, "pod-resources")} {
		must.NoError(t, os.MkdirAll(dir, 0o750))
	}
	k.servePodResources()
	watcher, err := fsnotify.NewWatcher()
	must.NoError(t, err)
	must.NoError(t, watcher.Add(k.registry()))
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.watch(ctx, watcher, &done) })
	t.Cleanup(func() { cancel(); watcher.Close(); done.Wait(); k.forgetAll() })
	return k
}

func (k *Kubelet) registry() string { return filepath.Join(k.Dir, "plugins_registry") }

// PluginDir is the data directory of the driver.
func (k *Kubelet) PluginDir() string { return filepath.Join(k.Dir, "plugins", driverName) }

func (k *Kubelet) watch(ctx context.Context, watcher *fsnotify.Watcher, done *sync.WaitGroup) {
	for event := range watcher.Events {
		if !strings.HasSuffix(event.Name, ".sock") {
			continue
		}
		switch {
		case event.Has(fsnotify.Create):
			done.Go(func() {
				// A driver may be killed before it answers: a kubelet logs that and goes on.
				if err := k.register(ctx, event.Name); err != nil && ctx.Err() == nil {
					k.t.Logf("kubelet: %v", err)
				}
			})
		case event.Has(fsnotify.Remove):
			k.forget(event.Name)
		}
	}
}

// register asks a plugin who it is, connects to it, and tells it that it is registered.
func (k *Kubelet) register(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	registration := registerapi.NewRegistrationClient(conn)
	// A socket has its name before it answers, so wait for it.
	info, err := registration.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("get info from %s: %w", socket, err)
	}
	if info.Type != registerapi.DRAPlugin || !slices.Contains(info.SupportedVersions, drapb.DRAPluginService) {
		return fmt.Errorf("plugin at %s is %v", socket, info)
	}
	calls, err := dial(info.Endpoint)
	if err != nil {
		return err
	}
	if _, err := registration.NotifyRegistrationStatus(ctx, &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		return errors.Join(fmt.Errorf("notify %s: %w", socket, err), calls.Close())
	}
	k.forget(socket)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plugins = append(k.plugins, &plugin{socket, info, calls})
	k.announce()
	return nil
}

// dial connects to a socket, and tries again soon where nobody listens yet.
func dial(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
			MinConnectTimeout: patience,
		}))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", socket, err)
	}
	return conn, nil
}

func (k *Kubelet) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *Kubelet) forget(socket string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plugins = slices.DeleteFunc(k.plugins, func(p *plugin) bool {
		if p.socket != socket {
			return false
		}
		p.conn.Close()
		return true
	})
	k.announce()
}

func (k *Kubelet) forgetAll() {
	for _, socket := range k.Sockets() {
		k.forget(socket)
	}
}

// Disconnect forgets all plugins, as when their processes died.
func (k *Kubelet) Disconnect() { k.forgetAll() }

// Restart forgets all plugins and registers those whose sockets are there, as a
// kubelet does that starts.
func (k *Kubelet) Restart() {
	k.t.Helper()
	k.forgetAll()
	sockets, err := filepath.Glob(filepath.Join(k.registry(), "*.sock"))
	must.NoError(k.t, err)
	for _, socket := range sockets {
		must.NoError(k.t, k.register(Context(k.t), socket))
	}
}

// Sockets returns the registration sockets of the registered plugins.
func (k *Kubelet) Sockets() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var sockets []string
	for _, p := range k.plugins {
		sockets = append(sockets, p.socket)
	}
	return sockets
}

// WaitForPlugins waits until that many plugins are registered.
func (k *Kubelet) WaitForPlugins(n int) {
	k.t.Helper()
	ctx := Context(k.t)
	for {
		k.mu.Lock()
		have, changed := len(k.plugins), k.changed
		k.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			k.t.Fatalf("%d plugins are registered, want %d", have, n)
		}
	}
}

var errNoPlugin = errors.New("no plugin is registered")

// plugin returns the i-th plugin from the end: 0 is the newest.
func (k *Kubelet) plugin(i int) (*grpc.ClientConn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i >= len(k.plugins) {
		return nil, errNoPlugin
	}
	return k.plugins[len(k.plugins)-1-i].conn, nil
}

// PrepareAt calls NodePrepareResources of the i-th newest plugin.
func (k *Kubelet) PrepareAt(ctx context.Context, i int, claims ...*resourceapi.ResourceClaim) (*drapb.NodePrepareResourcesResponse, error) {
	conn, err := k.plugin(i)
	if err != nil {
		return nil, err
	}
	return drapb.NewDRAPluginClient(conn).NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: references(claims)})
}

// Prepare calls NodePrepareResources of the newest plugin.
func (k *Kubelet) Prepare(ctx context.Context, claims ...*resourceapi.ResourceClaim) (*drapb.NodePrepareResourcesResponse, error) {
	return k.PrepareAt(ctx, 0, claims...)
}

// Unprepare calls NodeUnprepareResources of the newest plugin.
func (k *Kubelet) Unprepare(ctx context.Context, claims ...*resourceapi.ResourceClaim) (*drapb.NodeUnprepareResourcesResponse, error) {
	conn, err := k.plugin(0)
	if err != nil {
		return nil, err
	}
	return drapb.NewDRAPluginClient(conn).NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: references(claims)})
}

// Health opens the health stream of the newest plugin and returns its next report.
func (k *Kubelet) Health(ctx context.Context) ([]*healthpb.DeviceHealth, error) {
	conn, err := k.plugin(0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := healthpb.NewDRAResourceHealthClient(conn).NodeWatchResources(ctx, &healthpb.NodeWatchResourcesRequest{})
	if err != nil {
		return nil, err
	}
	report, err := stream.Recv()
	return report.GetDevices(), err
}

// SetPods says which claims the pods of the node use, or what the kubelet answers
// instead.
func (k *Kubelet) SetPods(err error, claims ...*resourceapi.ResourceClaim) {
	var used []*podresources.DynamicResource
	for _, c := range claims {
		used = append(used, usedClaim(c))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods, k.asked = []*podresources.PodResources{podOf("team-a", "pod", used...)}, err
}

// AddPod has one more pod on the node, whose only container uses claims, with all their
// devices by name as newer kubelets tell them.
func (k *Kubelet) AddPod(name string, claims ...*resourceapi.ResourceClaim) {
	var used []*podresources.DynamicResource
	for _, c := range claims {
		used = append(used, usedClaim(c, make([]string, len(c.Status.Allocation.Devices.Results))...))
	}
	k.addPod(podOf("team-a", name, used...))
}

// AddUsingPod has one more pod on the node, which uses a claim by the CDI devices that the driver answered with: none
// before it has answered.
func (k *Kubelet) AddUsingPod(name string, c *resourceapi.ResourceClaim, ids ...string) {
	k.addPod(podOf(c.Namespace, name, usedClaim(c, ids...)))
}

// usedClaim is a claim that a container uses, with as many of its devices as there are IDs of CDI devices. An ID may be
// empty.
func usedClaim(c *resourceapi.ResourceClaim, ids ...string) *podresources.DynamicResource {
	used := &podresources.DynamicResource{ClaimNamespace: c.Namespace, ClaimName: c.Name}
	for i, id := range ids {
		r := c.Status.Allocation.Devices.Results[i]
		device := &podresources.ClaimResource{DriverName: r.Driver, PoolName: r.Pool, DeviceName: r.Device}
		if id != "" {
			device.CdiDevices = []*podresources.CDIDevice{{Name: id}}
		}
		used.ClaimResources = append(used.ClaimResources, device)
	}
	return used
}

// podOf is a pod with one container.
func podOf(namespace, name string, used ...*podresources.DynamicResource) *podresources.PodResources {
	containers := []*podresources.ContainerResources{{Name: "main", DynamicResources: used}}
	return &podresources.PodResources{Name: name, Namespace: namespace, Containers: containers}
}

func (k *Kubelet) addPod(p *podresources.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = append(k.pods, p)
}

// PodLists returns how often the kubelet was asked which pods use which claims.
func (k *Kubelet) PodLists() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists
}

// SlowPodLists lets each answer about pods take a time.
func (k *Kubelet) SlowPodLists(each time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow = each
}

// HoldPodLists keeps the kubelet from answering which pods use which claims, until the returned function is called.
func (k *Kubelet) HoldPodLists() (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := make(chan struct{})
	k.held = held
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.held = nil
		close(held)
	})
}

// podServer is the pod resources API. The driver uses only List.
type podServer struct {
	podresources.UnimplementedPodResourcesListerServer
	kubelet *Kubelet
}

func (s podServer) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (
	*podresources.ListPodResourcesResponse, error) {
	s.kubelet.mu.Lock()
	held, slow := s.kubelet.held, s.kubelet.slow
	s.kubelet.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.kubelet.mu.Lock()
	defer s.kubelet.mu.Unlock()
	s.kubelet.lists++
	return &podresources.ListPodResourcesResponse{PodResources: slices.Clone(s.kubelet.pods)}, s.kubelet.asked
}

func (k *Kubelet) servePodResources() {
	k.t.Helper()
	listener, err := net.Listen("unix", filepath.Join(k.Dir, "pod-resources", "kubelet.sock"))
	must.NoError(k.t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, podServer{kubelet: k})
	go func() { _ = server.Serve(listener) }()
	k.t.Cleanup(server.Stop)
}
