package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	resourcelisters "k8s.io/client-go/listers/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

var (
	sizes = flag.String("drivers", "100,300", "numbers of drivers, each with an API server of its own")
	pause = flag.Duration("pause", time.Minute, "how long the shortest phase lasts; the budget of a driver needs a minute")
)

// leafSize is how many nodes lose their links at once.
const leafSize = 32

// BenchmarkDrivers runs the driver of many nodes in this process, against a real API server with rights and policies of
// the chart, and counts what each driver asks in each phase of its life.
func BenchmarkDrivers(b *testing.B) {
	needs.Root(b, "the hosts of the drivers have device nodes")
	raiseInotify(b)
	var report strings.Builder
	for size := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 3 {
			b.Fatalf("-drivers %q: want numbers from 3 on", *sizes)
		}
		b.Run(size, func(b *testing.B) {
			f := newDrivers(b, n)
			f.live()
			report.WriteString(f.report())
		})
	}
	if !b.Failed() {
		publish(b, "drivers.md", report.String())
	}
}

// raiseInotify lets this process watch the directories of all nodes: on hosts, each driver and each kubelet has a limit
// of its own. The machine gets its value back.
func raiseInotify(t testing.TB) {
	t.Helper()
	const file, enough = "/proc/sys/fs/inotify/max_user_instances", 8192
	before, err := os.ReadFile(file)
	must.NoError(t, err)
	have, err := strconv.Atoi(strings.TrimSpace(string(before)))
	must.NoError(t, err, must.Sprint(file))
	if have >= enough {
		return
	}
	must.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(enough)), 0o644),
		must.Sprint("allow more inotify instances"))
	t.Cleanup(func() {
		test.NoError(t, os.WriteFile(file, before, 0o644))
	})
}

// drivers is a cluster of nodes whose drivers run in this process.
type drivers struct {
	*server
	nodes   []*node
	leaf    int // nodes of each leaf: the first ones, and those after them
	all     *pulse
	slices  resourcelisters.ResourceSliceLister // follows a watch, as a scheduler does
	results []result
}

func newDrivers(b testing.TB, n int) *drivers {
	b.Helper()
	f := &drivers{server: startServer(b), leaf: min(leafSize, n/3), all: &pulse{seconds: map[int64]int{}}}
	f.install()
	first, second, others := newHost(b), newHost(b), newHost(b)
	for i := range n {
		h := others
		switch {
		case i < f.leaf:
			h = first
		case i < 2*f.leaf:
			h = second
		}
		f.nodes = append(f.nodes, newNode(f.server, fmt.Sprintf("node%04d", i), h, f.all))
	}
	f.each(n, func(ctx context.Context, i int) error { return f.nodes[i].prepare(ctx, f.server) })
	f.follow()
	b.Cleanup(func() {
		test.NoError(b, f.stop())
		if b.Failed() {
			b.Logf("the driver of %s said:\n%s", f.nodes[0].name, f.nodes[0].log.String())
		}
	})
	return f
}

// follow watches all slices.
func (f *drivers) follow() {
	factory := informers.NewSharedInformerFactory(f.client, 0)
	f.slices = factory.Resource().V1().ResourceSlices().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	f.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

// stop stops all drivers.
func (f *drivers) stop() error {
	errs := make([]error, len(f.nodes))
	var stopped sync.WaitGroup
	for i, n := range f.nodes {
		stopped.Go(func() { errs[i] = n.stop() })
	}
	stopped.Wait()
	return errors.Join(errs...)
}

// start starts all drivers at once, and waits until the kubelets have registered them.
func (f *drivers) start() error {
	for _, n := range f.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range f.nodes {
		if err := n.registered(); err != nil {
			return err
		}
	}
	return nil
}

// published are all slices as the watch shows them, by UID.
func (f *drivers) published() map[types.UID]*resourceapi.ResourceSlice {
	list, err := f.slices.List(labels.Everything())
	if err != nil {
		f.Fatal(err) // a lister reads memory
	}
	out := map[types.UID]*resourceapi.ResourceSlice{}
	for _, s := range list {
		out[s.UID] = s
	}
	return out
}

// devices lists the devices of each node, by its name.
func (f *drivers) devices() map[string][]resourceapi.Device {
	out := map[string][]resourceapi.Device{}
	for _, s := range f.published() {
		out[*s.Spec.NodeName] = append(out[*s.Spec.NodeName], s.Spec.Devices...)
	}
	return out
}

// right returns nil if each node has all devices, and the nodes of each leaf so many of them with a taint.
func (f *drivers) right(first, second int) error {
	devices := f.devices()
	for i, n := range f.nodes {
		want := 0
		switch {
		case i < f.leaf:
			want = first
		case i < 2*f.leaf:
			want = second
		}
		tainted := 0
		for _, d := range devices[n.name] {
			tainted += min(1, len(d.Taints))
		}
		if got := len(devices[n.name]); got != len(n.host.hcas) || tainted != want {
			return fmt.Errorf("node %s has %d devices, %d of them with a taint; want %d, %d",
				n.name, got, tainted, len(n.host.hcas), want)
		}
	}
	return nil
}

// flap changes the links of the first HCAs of a leaf: the nodes share a host, so the files change at once.
func (f *drivers) flap(nodes []*node, hcas int, up bool) {
	nodes[0].host.set(f, hcas, up)
	var told sync.WaitGroup
	for _, n := range nodes {
		told.Go(func() { n.flap(hcas, up) })
	}
	told.Wait()
}

// await waits for a condition that only trouble keeps from coming.
func (f *drivers) await(condition func() error) {
	f.Helper()
	must.NoError(f, drivertest.Await(10*time.Minute, condition))
}
