package latency

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/replay"
)

// node is a fixture host with a driver, and one port of it that fails at will.
type node struct {
	testing.TB
	name   string
	host   *drivertest.Host
	port   *rdma.HCA // the one that fails
	links  *replay.Links
	client kubernetes.Interface
	writes *writes // of the driver
	seen   <-chan sight
	last   sight
	twin   *resourceapi.ResourceSlice // of barePut
}

// sight is a state of the slice with the port's HCA, and when it was seen.
type sight struct {
	slice *resourceapi.ResourceSlice
	at    time.Time
}

// start makes a node with so many HCAs, and runs a driver there until the test ends.
func start(t testing.TB, control *cluster.ControlPlane, functions int) *node {
	t.Helper()
	m, err := fixture.Large(functions)
	must.NoError(t, err)
	n := &node{
		TB: t, name: fmt.Sprintf("%s-%d", "node", functions), host: drivertest.NewHost(t, "none"), links: replay.New(),
	}
	n.host.Become(t, m)
	hcas := rdmatest.Discover(t, m).HCAs
	n.port = &hcas[len(hcas)-1]
	c, err := drivertest.ConfigOf(control.Kubeconfig())
	must.NoError(t, err)
	n.client, err = kubernetes.NewForConfig(c)
	must.NoError(t, err)
	n.register()
	n.watch()
	n.run(rest.CopyConfig(c))
	n.await(func(d *resourceapi.Device) bool { return len(d.Taints) == 0 })
	n.settle(functions)
	return n
}

// own selects the slices of the node.
func (n *node) own() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name}
}

// register makes the Node object.
func (n *node) register() {
	n.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	object.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0"
	if _, err := n.client.CoreV1().Nodes().Create(n.Context(), object, metav1.CreateOptions{}); err != nil {
		n.Fatal(err)
	}
}

// watch follows the slice with the port's HCA.
func (n *node) watch() {
	n.Helper()
	w, err := n.client.ResourceV1().ResourceSlices().Watch(n.Context(), n.own())
	must.NoError(n, err)
	n.Cleanup(w.Stop)
	seen := make(chan sight, 10000)
	n.seen = seen
	go func() {
		for e := range w.ResultChan() {
			if s, ok := e.Object.(*resourceapi.ResourceSlice); ok && device(s, n.port.Name) != nil {
				seen <- sight{s, time.Now()}
			}
		}
	}()
}

func device(s *resourceapi.ResourceSlice, name string) *resourceapi.Device {
	if i := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == name }); i >= 0 {
		return &s.Spec.Devices[i]
	}
	return nil
}

// run runs the driver, with a client of its own.
func (n *node) run(c *rest.Config) {
	n.Helper()
	n.writes = &writes{}
	c.Wrap(n.writes.wrap)
	p, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n" + atOnce + "\n"))
	must.NoError(n, err)
	client, err := kubernetes.NewForConfig(c)
	must.NoError(n, err)
	kubelet := drivertest.NewKubelet(n.TB)
	driver, err := dra.New(dra.Config{
		NodeName: n.name, HostRoot: n.host.Root, KubeletDir: kubelet.Dir,
		StateDir: filepath.Join(drivertest.TempDir(n.TB), "state"), CDIDir: filepath.Join(drivertest.TempDir(n.TB), "cdi"),
		Site: plan.DefaultSite(), Policy: p, Events: n.links.Events(),
	}, client)
	must.NoError(n, err)
	drivertest.Run(n.TB, driver)
}

// settle waits until all devices are published.
func (n *node) settle(want int) {
	n.Helper()
	drivertest.Eventually(n, func() error {
		if got := len(n.devices()); got != want {
			return fmt.Errorf("%d devices are published, want %d", got, want)
		}
		return nil
	})
}

// devices lists what is published.
func (n *node) devices() map[string]resourceapi.Device {
	n.Helper()
	list, err := n.client.ResourceV1().ResourceSlices().List(n.Context(), n.own())
	must.NoError(n, err)
	out := map[string]resourceapi.Device{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			out[d.Name] = d
		}
	}
	return out
}

// await waits until the port's HCA is published so, and returns when that was seen.
func (n *node) await(so func(*resourceapi.Device) bool) time.Time {
	n.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case n.last = <-n.seen:
			if so(device(n.last.slice, n.port.Name)) {
				return n.last.at
			}
		case <-timeout:
			if n.last.slice == nil {
				n.Fatalf("%s is not published", n.port.Name)
			}
			n.Fatalf("%s is not published as it should be: taints %v", n.port.Name, device(n.last.slice, n.port.Name).Taints)
		}
	}
}

// set gives the port a state, and returns when the event was heard.
func (n *node) set(up bool) time.Time {
	n.Helper()
	state, physical := "1: DOWN", "3: Disabled"
	if up {
		state, physical = "4: ACTIVE", "5: LinkUp"
	}
	port := filepath.Join(n.host.Root, "sys/class/infiniband", n.port.IBDev, "ports/1")
	for file, content := range map[string]string{"state": state, "phys_state": physical} {
		made := filepath.Join(n.host.Root, "sys", file+".new") // as in sysfs, nobody reads half of it
		must.NoError(n, os.WriteFile(made, []byte(content+"\n"), 0o644))
		must.NoError(n, os.Rename(made, filepath.Join(port, file)))
	}
	n.links.Change(7, n.port.Ports[0].Netdev, up)
	return time.Now()
}

// writes are the requests of a driver that write slices.
type writes struct {
	mu    sync.Mutex
	spans []span
	open  sync.WaitGroup
}

// span is a request.
type span struct{ start, end time.Time }

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "resourceslices") {
			return next.RoundTrip(r)
		}
		w.open.Add(1)
		defer w.open.Done()
		began := time.Now()
		response, err := next.RoundTrip(r)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.spans = append(w.spans, span{began, time.Now()})
		return response, err
	})
}

// take returns the writes since the last call. It first waits for the answers to open requests: the watch may have
// shown a write before its answer came.
func (w *writes) take() []span {
	w.open.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.spans
	w.spans = nil
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
