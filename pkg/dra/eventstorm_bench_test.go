package dra_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const (
	stormInterval = 100 * time.Millisecond
	stormSettles  = 3 * time.Second // the watcher names each interface again after a second
)

// stormEvents is a minute of events if TEST_LONG is set, and otherwise enough to show that the benchmark works.
func stormEvents() int {
	if os.Getenv("TEST_LONG") == "" {
		return 20
	}
	return 600
}

// BenchmarkEventStorm measures the processor time of a driver in a storm of events (docs/adr/0032). Ten times a second
// a port changes, and the kernel names its interface. In "one" the same link goes down and up. In "each" it is a link
// of another card each time. In "unpublished" a link stays down and the reason changes, which slices do not have. The
// driver is a process of its own: the API server and the test do not count.
func BenchmarkEventStorm(b *testing.B) {
	for _, functions := range []int{8, 64, 1016} {
		for _, links := range []string{"one", "each", "unpublished"} {
			b.Run(fmt.Sprintf("devices=%d/links=%s", functions, links), func(b *testing.B) {
				eventStorm(b, functions, links)
			})
		}
	}
}

// ports change a port, by what the storm is about and whether the link is to be down.
var ports = map[string]map[bool]func(testing.TB, *drivertest.Node, string){
	"one":         {true: portDown, false: portUp},
	"each":        {true: portDown, false: portUp},
	"unpublished": {true: portDown, false: portPolls},
}

// portPolls leaves a port down, for another reason than portDown.
func portPolls(t testing.TB, n *drivertest.Node, ibdev string) {
	t.Helper()
	rdmatest.SetPort(t, n.Root, ibdev, "1: DOWN", "2: Polling")
}

func eventStorm(b *testing.B, functions int, links string) {
	m, err := fixture.Large(functions)
	must.NoError(b, err)
	n := drivertest.NewNode(b, "none")
	n.Become(b, m)
	hcas := rdmatest.Discover(b, m).HCAs
	driver, interfaces := startReplay(b, n)
	drivertest.Eventually(b, func() error { return publishes(n, functions) })
	time.Sleep(stormSettles)
	down, tick := map[int]bool{}, time.NewTicker(stormInterval)
	defer tick.Stop()
	before, writes := processorTime(b, driver.PID()), n.Count(drivertest.UpdateSlice)
	events := stormEvents()
	for i := range events {
		<-tick.C
		link := functions - 1
		if links == "each" {
			link = i * 61 % functions
		}
		down[link] = !down[link]
		ports[links][down[link]](b, n, hcas[link].IBDev)
		fmt.Fprintln(interfaces, hcas[link].Ports[0].Netdev)
	}
	time.Sleep(stormSettles)
	used := processorTime(b, driver.PID()) - before
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(1000*used.Seconds()/float64(events), "cpu-ms/event")
	b.ReportMetric(100*used.Seconds()/(time.Duration(events)*stormInterval).Seconds(), "cpu-%")
	b.ReportMetric(float64(n.Count(drivertest.UpdateSlice)-writes), "writes")
}

// publishes returns nil when so many devices are published.
func publishes(n *drivertest.Node, devices int) error {
	got := 0
	for _, s := range n.Slices() {
		got += len(s.Spec.Devices)
	}
	if got != devices {
		return fmt.Errorf("%d devices are published, want %d", got, devices)
	}
	return nil
}

// processorTime returns what a process has used since it started.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	const scheduled = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var used unix.Timespec
	must.NoError(b, unix.ClockGettime(int32(^pid<<3|scheduled), &used))
	return time.Duration(used.Nano())
}

// replayVariable makes the test's program a driver. Its value is a replay.
const replayVariable = "DRA_TEST_REPLAY"

// replay configures that driver.
type replay struct {
	HostRoot, KubeletDir, StateDir, CDIDir string

	Server string // URL of the API server
	Events string // a pipe with names of interfaces, in place of the kernel's events
}

func init() {
	encoded := os.Getenv(replayVariable)
	if encoded == "" {
		return
	}
	var r replay
	err := json.Unmarshal([]byte(encoded), &r)
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startReplay starts a driver, and returns where it reads which interfaces changed.
func startReplay(b *testing.B, n *drivertest.Node) (*drivertest.Process, io.Writer) {
	b.Helper()
	r := replay{n.Root, n.Dir, n.StateDir, n.CDIDir, n.API.Config().Host, filepath.Join(n.Dir, "events")}
	encoded, err := json.Marshal(r)
	if err == nil {
		err = unix.Mkfifo(r.Events, 0o600)
	}
	must.NoError(b, err)
	events, err := os.OpenFile(r.Events, os.O_RDWR, 0)
	must.NoError(b, err)
	b.Cleanup(func() { events.Close() })
	return drivertest.StartProgram(b, "/usr/bin/env", replayVariable+"="+string(encoded), os.Args[0]), events
}

// run runs the driver as its program does, until SIGTERM.
func (r *replay) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := &rest.Config{Host: r.Server, QPS: -1}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	driver, err := dra.New(dra.Config{
		NodeName: drivertest.NodeName, Site: plan.DefaultSite(),
		HostRoot: r.HostRoot, KubeletDir: r.KubeletDir, StateDir: r.StateDir, CDIDir: r.CDIDir,
		Events: watch.Config{Uevents: r.uevents, Links: silence, RDMA: silence},
	}, client)
	if err != nil {
		return err
	}
	return driver.Run(ctx)
}

// uevents opens the pipe.
func (r *replay) uevents() (io.ReadCloser, error) {
	pipe, err := os.Open(r.Events)
	return namedInterfaces{bufio.NewScanner(pipe), pipe}, err
}

// silence opens a source without events.
func silence() (io.ReadCloser, error) {
	r, w := io.Pipe()
	return struct {
		io.Reader
		io.Closer
	}{r, w}, nil
}

// namedInterfaces makes an event of the kernel of each line.
type namedInterfaces struct {
	names *bufio.Scanner
	io.Closer
}

func (n namedInterfaces) Read(p []byte) (int, error) {
	if !n.names.Scan() {
		return 0, io.EOF
	}
	return copy(p, "change@/devices/net/"+n.names.Text()+"\x00SUBSYSTEM=net\x00"), nil
}
