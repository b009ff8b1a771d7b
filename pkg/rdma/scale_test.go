package rdma_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// mostPerDevice is what a RoCE function may cost: a file for each attribute and none
// for what another one says.
const mostPerDevice = 25

// TestScaling: what Discover reads grows with the number of devices and no
// faster, and it lists no directory twice.
func TestScaling(t *testing.T) {
	perDevice := map[int]float64{}
	for _, n := range []int{8, 64, 1016} {
		c := counted.New(large(t, n))
		snap, err := rdma.Discover(c)
		must.NoError(t, err)
		must.True(t, len(snap.HCAs) == n && len(snap.Problems) == 0,
			must.Sprintf("%d devices: found %d, problems %v", n, len(snap.HCAs), snap.Problems))
		perDevice[n] = float64(c.Operations()) / float64(n)
		t.Logf("%d devices: %.1f operations and %.1f system calls each: %d files read, %d missing, %d links, %d stats, %d directories",
			n, perDevice[n], float64(c.SystemCalls())/float64(n), c.Reads, c.Misses, c.Links, c.Stats, len(c.Dirs))
		for dir, times := range c.Dirs {
			test.LessEq(t, 1, times, test.Sprintf("%d devices: %s listed %d times", n, dir, times))
		}
		for _, dir := range []string{"class/infiniband", "class/infiniband_verbs", "class/infiniband_mad", "class/net"} {
			test.Eq(t, 1, c.Dirs[dir], test.Sprintf("%d devices: %s listed", n, dir))
		}
	}
	if perDevice[1016] > mostPerDevice {
		t.Errorf("%.1f operations for each of 1016 devices; want at most %d", perDevice[1016], mostPerDevice)
	}
	if perDevice[1016] > perDevice[64] {
		t.Errorf("%.1f operations for each of 1016 devices, %.1f for each of 64", perDevice[1016], perDevice[64])
	}
}

// candidates is a host whose PFs are ConnectX-8, which have VPD to read, and may have a DMA function.
type candidates struct{ *flapping }

func (c candidates) ReadFile(name string) ([]byte, error) {
	b, err := c.flapping.ReadFile(name)
	return bytes.ReplaceAll(b, []byte("PCI_ID=15B3:101D"), []byte("PCI_ID=15B3:1023")), err
}

func (c candidates) Stat(name string) (fs.FileInfo, error) {
	return c.flapping.Stat(strings.Replace(name, "/vpd", "/uevent", 1))
}

func (c candidates) Open(name string) (fs.File, error) {
	if path.Base(name) == "vpd" {
		return fstest.MapFS{"vpd": {Data: []byte{0x78}}}.Open("vpd")
	}
	return c.flapping.Open(name)
}

// TestScalingVPD: cards whose VPD is read cost one file for each PF, and for the host a list of its PCI functions and a
// file of each that has no HCA: nothing for a VF.
func TestScalingVPD(t *testing.T) {
	const pfs = 8
	more := map[int]int{}
	for _, n := range []int{pfs, 1016} {
		plain := counted.New(large(t, n))
		old, err := rdma.Discover(plain)
		must.NoError(t, err)
		c := counted.New(candidates{&flapping{ReadLinkFS: large(t, n)}})
		snap, err := rdma.Discover(c)
		must.True(t, err == nil && len(snap.HCAs) == len(old.HCAs), must.Sprintf("%d devices: %v", n, err))
		test.True(t, plain.VPD == 0 && c.VPD == pfs,
			test.Sprintf("%d devices: VPD of %d cards is read, and %d of others; want %d and none", n, c.VPD,
				plain.VPD, pfs))
		more[n] = c.Operations() - plain.Operations()
		t.Logf("%d devices: %d operations, %d with candidates", n, plain.Operations(), c.Operations())
	}
	test.Eq(t, more[pfs], more[1016],
		test.Sprintf("candidates cost %d operations on a host of 1016 devices, and %d on one of %d", more[1016], more[pfs], pfs))
}

// TestUpdateCost: one event costs the same on any host, in operations and, but for the
// list of HCAs that each snapshot has, in memory.
func TestUpdateCost(t *testing.T) {
	const most = 30 // operations: those of one HCA, its interface and its nodes
	type cost struct {
		operations int
		allocated  float64
	}
	costs := map[int]cost{}
	for _, n := range []int{8, 64, 1016} {
		c := counted.New(large(t, n))
		flap := &flapping{ReadLinkFS: c}
		s := rdma.NewScanner(flap)
		snap, err := s.Scan()
		must.NoError(t, err)
		h := snap.HCAs[n/2]
		flap.file = stateFile(t, c, h.IBDev)
		update := func() {
			flap.down = !flap.down
			next, err := s.Update(rdma.Changes{Netdevs: rdma.NamesOf(h.Ports[0].Netdev)})
			must.NoError(t, err)
			d := rdma.Compare(snap, next)
			must.True(t, len(d.HCAs) == 1 && d.HCAs[0] == h.Name,
				must.Sprintf("%d devices: changed %v; want %s", n, d.HCAs, h.Name))
			snap = next
		}
		c.Reset()
		update()
		operations := c.Operations()
		costs[n] = cost{operations, testing.AllocsPerRun(10, update)}
		t.Logf("%d devices: one event costs %d operations, %d system calls, %.0f allocations", n, operations,
			c.SystemCalls()/12, costs[n].allocated)
	}
	for _, n := range []int{64, 1016} {
		test.True(t, costs[n].operations <= costs[8].operations && costs[n].operations <= most,
			test.Sprintf("%d operations for an event on a host of %d devices, %d on one of 8; want at most %d",
				costs[n].operations, n, costs[8].operations, most))
		if costs[n].allocated > costs[8].allocated+5 {
			t.Errorf("%.0f allocations for an event on a host of %d devices, %.0f on one of 8",
				costs[n].allocated, n, costs[8].allocated)
		}
	}
}

// TestScalingRepresentors: an HCA in switchdev mode with many ports, on a device
// with as many interfaces.
func TestScalingRepresentors(t *testing.T) {
	perPort := map[int]float64{}
	for _, n := range []int{4, 128} {
		c := counted.New(switchdev(t, n))
		snap, err := rdma.Discover(c)
		must.NoError(t, err)
		if len(snap.HCAs[0].Ports) != n+1 || !snap.HCAs[0].Ports[n].Representor || snap.HCAs[0].Ports[0].Representor {
			t.Fatalf("%d representors: ports %+v", n, snap.HCAs[0].Ports)
		}
		perPort[n] = float64(c.Operations()) / float64(n+1)
	}
	if perPort[128] > perPort[4] {
		t.Errorf("%.1f operations for each of 128 representors, %.1f for each of 4", perPort[128], perPort[4])
	}
}

// switchdev is a PF in switchdev mode with n representors.
func switchdev(t *testing.T, n int) fs.FS {
	const dir = "sys/devices/pci0000:00/0000:00:03.1/0000:08:00.0/"
	var b strings.Builder
	file := func(name, content string) { fmt.Fprintf(&b, "-- %s%s --\n%s\n", dir, name, content) }
	link := func(class, name string) {
		fmt.Fprintf(&b, "-- sys/class/%s/%s -> ../../%s%s/%s --\n", class, name, strings.TrimPrefix(dir, "sys/"), class, name)
	}
	link("infiniband", "mlx5_0")
	file("infiniband/mlx5_0/node_type", "1: CA")
	netdev := func(name, portName string) {
		link("net", name)
		file("net/"+name+"/phys_port_name", portName)
		file("net/"+name+"/dev_port", "0")
	}
	netdev("uplink", "p0")
	file("infiniband/mlx5_0/ports/1/link_layer", "Ethernet")
	for i := range n {
		netdev(fmt.Sprintf("rep%d", i), fmt.Sprintf("pf0vf%d", i))
		file(fmt.Sprintf("infiniband/mlx5_0/ports/%d/link_layer", i+2), "Ethernet")
	}
	m, err := fixture.Parse("switchdev", []byte("Made for one test.\n\n"+b.String()))
	must.NoError(t, err)
	return m.FS(t)
}

// large is a host of n functions, held in memory, where it takes less time than on a
// disk.
func large(t testing.TB, n int) fs.ReadLinkFS {
	t.Helper()
	largeMu.Lock()
	defer largeMu.Unlock()
	if larges[n] == nil {
		m, err := fixture.Large(n)
		must.NoError(t, err)
		larges[n] = m
	}
	return larges[n].FS(t)
}

var (
	largeMu sync.Mutex
	larges  = map[int]*fixture.Machine{}
)

func synthesize(t testing.TB, functions int) string {
	t.Helper()
	dir := rdmatest.TempDir(t)
	must.NoError(t, fixture.Synthesize(dir, functions))
	return dir
}
