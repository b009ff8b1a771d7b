package rdma_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// counter counts what Discover asks of a file system.
type counter struct {
	fs.ReadLinkFS
	reads, links, stats int
	dirs                map[string]int
}

func count(sys fs.FS) *counter {
	return &counter{ReadLinkFS: sys.(fs.ReadLinkFS), dirs: map[string]int{}}
}

func (c *counter) ReadFile(name string) ([]byte, error) {
	c.reads++
	return fs.ReadFile(c.ReadLinkFS, name)
}

func (c *counter) ReadLink(name string) (string, error) {
	c.links++
	return c.ReadLinkFS.ReadLink(name)
}

func (c *counter) Stat(name string) (fs.FileInfo, error) {
	c.stats++
	return fs.Stat(c.ReadLinkFS, name)
}

func (c *counter) ReadDir(name string) ([]fs.DirEntry, error) {
	c.dirs[name]++
	return fs.ReadDir(c.ReadLinkFS, name)
}

// Open is what ReadFile and ReadDir of package fs fall back to: nothing may.
func (c *counter) Open(name string) (fs.File, error) {
	return nil, fmt.Errorf("open %s: not counted", name)
}

func (c *counter) total() int {
	n := c.reads + c.links + c.stats
	for _, times := range c.dirs {
		n += times
	}
	return n
}

// TestScaling: what Discover reads grows with the number of devices and no
// faster, and it lists no directory twice.
func TestScaling(t *testing.T) {
	perDevice := map[int]float64{}
	for _, n := range []int{8, 64, 1016} {
		c := count(os.DirFS(filepath.Join(synthesize(t, n), "sys")))
		snap, err := rdma.Discover(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.HCAs) != n || len(snap.Problems) > 0 {
			t.Fatalf("%d devices: found %d, problems %v", n, len(snap.HCAs), snap.Problems)
		}
		perDevice[n] = float64(c.total()) / float64(n)
		t.Logf("%d devices: %.1f operations each: %d files read, %d links, %d stats, %d directories", n, perDevice[n], c.reads, c.links, c.stats, len(c.dirs))
		for dir, times := range c.dirs {
			if times > 1 {
				t.Errorf("%d devices: %s listed %d times", n, dir, times)
			}
		}
		for _, dir := range []string{"class/infiniband", "class/infiniband_verbs", "class/infiniband_mad", "class/net"} {
			if c.dirs[dir] != 1 {
				t.Errorf("%d devices: %s listed %d times; want once", n, dir, c.dirs[dir])
			}
		}
	}
	if perDevice[1016] > perDevice[64] {
		t.Errorf("%.1f operations for each of 1016 devices, %.1f for each of 64", perDevice[1016], perDevice[64])
	}
}

// TestScalingRepresentors: an HCA in switchdev mode with many ports, on a device
// with as many interfaces.
func TestScalingRepresentors(t *testing.T) {
	perPort := map[int]float64{}
	for _, n := range []int{4, 128} {
		c := count(switchdev(t, n))
		snap, err := rdma.Discover(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.HCAs[0].Ports) != n+1 || !snap.HCAs[0].Ports[n].Representor || snap.HCAs[0].Ports[0].Representor {
			t.Fatalf("%d representors: ports %+v", n, snap.HCAs[0].Ports)
		}
		perPort[n] = float64(c.total()) / float64(n+1)
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
	if err != nil {
		t.Fatal(err)
	}
	return m.FS(t)
}

// BenchmarkDiscover gives the time and the number of operations for a device, on
// files in memory. On real sysfs a file costs more, and some ask the firmware.
func BenchmarkDiscover(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			sys := os.DirFS(filepath.Join(synthesize(b, n), "sys"))
			c := count(sys)
			if _, err := rdma.Discover(c); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := rdma.Discover(sys.(fs.ReadLinkFS)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/device")
			b.ReportMetric(float64(c.total())/float64(n), "operations/device")
		})
	}
}

func synthesize(t testing.TB, functions int) string {
	t.Helper()
	dir := memDir(t)
	if err := fixture.Synthesize(dir, functions); err != nil {
		t.Fatal(err)
	}
	return dir
}
