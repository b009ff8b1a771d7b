package rdma_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The benchmarks read files in memory. On real sysfs a file costs more, and some ask
// the firmware. Beside the time, which other programs on the machine prolong, they
// give that of the processor, and the number of file operations and of system calls.

// BenchmarkDiscover is a look at the whole host.
func BenchmarkDiscover(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			measure(b, n, func(sys fs.ReadLinkFS) func() error {
				return func() error {
					_, err := rdma.Discover(sys)
					return err
				}
			})
		})
	}
}

// BenchmarkFloor is the bare system calls of a look at the whole host, in the same order,
// from one goroutine: nothing that reads these files can be faster, but by reading at
// once.
func BenchmarkFloor(b *testing.B) {
	root := filepath.Join(synthesize(b, 1016), "sys")
	c := counted.New(sysfs.DirFS(root))
	_, err := rdma.Discover(c)
	must.NoError(b, err)
	var buf [4096]byte
	before := processorTime()
	for b.Loop() {
		for _, name := range c.Asked {
			path := root + "/" + name.Path
			if name.Link {
				syscall.Readlink(path, buf[:])
				continue
			}
			fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			syscall.Read(fd, buf[:])
			syscall.Close(fd)
		}
	}
	b.ReportMetric((processorTime()-before)/float64(b.N), "cpu-µs/op")
}

// BenchmarkUpdate is a link that goes down and up, which the kernel says of an
// interface.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			measure(b, n, func(sys fs.ReadLinkFS) func() error {
				flap := &flapping{ReadLinkFS: sys}
				s := rdma.NewScanner(flap)
				snap, err := s.Scan()
				must.NoError(b, err)
				last := snap.HCAs[len(snap.HCAs)/2]
				flap.file = stateFile(b, sys, last.IBDev)
				changes := rdma.Changes{Netdevs: rdma.NamesOf(last.Ports[0].Netdev)}
				return func() error {
					flap.down = !flap.down
					next, err := s.Update(changes)
					d := rdma.Compare(snap, next)
					must.Len(b, 1, d.HCAs, must.Sprintf("changed %v; want one HCA", d.HCAs))
					snap = next
					return err
				}
			})
		})
	}
}

// BenchmarkPoll is a look at the states of all ports.
func BenchmarkPoll(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			measure(b, n, func(sys fs.ReadLinkFS) func() error {
				s := rdma.NewScanner(sys)
				_, err := s.Scan()
				must.NoError(b, err)
				return func() error {
					c := s.Poll()
					must.True(b, c.Empty(), must.Sprintf("changed: %s", c))
					return nil
				}
			})
		})
	}
}

// BenchmarkCompare is what finds the cards whose slices have to be written.
func BenchmarkCompare(b *testing.B) {
	snap, err := rdma.Discover(sysfs.DirFS(filepath.Join(synthesize(b, 1016), "sys")))
	must.NoError(b, err)
	other := *snap
	other.HCAs = slices.Clone(snap.HCAs)
	other.HCAs[500].Firmware = "other"
	for b.Loop() {
		d := rdma.Compare(snap, &other)
		must.Len(b, 1, d.HCAs, must.Sprintf("changed %v; want one HCA", d.HCAs))
	}
}

// measure runs what start returns on a host of n functions: once to count what it
// asks of the file system, then for the time.
func measure(b *testing.B, n int, start func(fs.ReadLinkFS) func() error) {
	sys := sysfs.DirFS(filepath.Join(synthesize(b, n), "sys"))
	c := counted.New(sys)
	once := start(c)
	c.Reset()
	must.NoError(b, once())
	run, before := start(sys), processorTime()
	b.ReportAllocs()
	for b.Loop() {
		must.NoError(b, run())
	}
	b.ReportMetric((processorTime()-before)/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(c.Operations()), "operations/op")
	b.ReportMetric(float64(c.SystemCalls()), "syscalls/op")
	b.ReportMetric(float64(c.SystemCalls())/float64(n), "syscalls/device")
}

// processorTime is what this process has used, in microseconds.
func processorTime() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1000
}

// flapping is a file system in which one port is down now and then.
type flapping struct {
	fs.ReadLinkFS
	file string
	down bool
}

func (f *flapping) ReadFile(name string) ([]byte, error) {
	if f.down && name == f.file {
		return []byte("1: DOWN\n"), nil
	}
	return fs.ReadFile(f.ReadLinkFS, name)
}

func (f *flapping) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(f.ReadLinkFS, name)
}

func (f *flapping) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.ReadLinkFS, name) }

// stateFile is the file that Discover reads for the state of an HCA's first port.
func stateFile(t testing.TB, sys fs.ReadLinkFS, ibdev string) string {
	t.Helper()
	target, err := sys.ReadLink("class/infiniband/" + ibdev)
	must.NoError(t, err)
	return filepath.Join("class/infiniband", target, "ports/1/state")
}
