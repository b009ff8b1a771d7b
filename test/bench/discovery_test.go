package bench

import (
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// hosts are the sizes of hosts. All but the largest have GID tables like real hosts. On the largest host, such tables
// would be a quarter of a million files.
var hosts = []struct{ devices, gids int }{{8, 256}, {32, 256}, {64, 256}, {1016, 0}}

// hostDir extracts a host into memory, and returns its root.
func hostDir(t testing.TB, devices, gids int) string {
	t.Helper()
	m, err := fixture.LargeGIDs(devices, gids)
	must.NoError(t, err)
	dir := drivertest.TempDir(t)
	must.NoError(t, m.Extract(dir))
	return dir
}

// BenchmarkDiscovery is a look at the whole host ("cold") and one after a link event
// ("event"); the floor is the bare system calls for the same files, in the same order.
// Files of a fixture cost less than those of sysfs: both sides gain.
func BenchmarkDiscovery(b *testing.B) {
	for _, h := range hosts {
		root := filepath.Join(hostDir(b, h.devices, h.gids), "sys")
		b.Run(fmt.Sprintf("devices=%d/gids=%d/cold", h.devices, h.gids), func(b *testing.B) {
			look(b, root, h.devices, func(sys fs.ReadLinkFS) (func() error, error) {
				return func() error {
					_, err := rdma.Discover(sys)
					return err
				}, nil
			})
		})
		b.Run(fmt.Sprintf("devices=%d/gids=%d/event", h.devices, h.gids), func(b *testing.B) {
			look(b, root, h.devices, func(sys fs.ReadLinkFS) (func() error, error) {
				s := rdma.NewScanner(sys)
				snap, err := s.Scan()
				if err != nil {
					return nil, err
				}
				changed := rdma.Changes{Netdevs: rdma.NamesOf(snap.HCAs[len(snap.HCAs)/2].Ports[0].Netdev)}
				return func() error {
					_, err := s.Update(changed)
					return err
				}, nil
			})
		})
	}
}

// look measures what start returns over the bare system calls.
func look(b *testing.B, root string, devices int, start func(fs.ReadLinkFS) (func() error, error)) {
	const rounds = 30
	c := counted.New(sysfs.DirFS(root))
	counting, err := start(c)
	must.NoError(b, err)
	c.Reset()
	run, err := start(sysfs.DirFS(root))
	must.NoError(b, err)
	must.NoError(b, counting())
	var ours, bare times
	for round := range rounds {
		inTurn(round, []func(){
			func() { ours = append(ours, took(func() { err = run() })) },
			func() { bare = append(bare, took(func() { bareCalls(root, c.Asked) })) },
		}, func(f func()) { f() })
		must.NoError(b, err)
	}
	f := ours.figures()
	f["calls/op"] = float64(c.SystemCalls())
	f["calls/device"] = float64(c.SystemCalls()) / float64(devices)
	f["allocations/op"] = testing.AllocsPerRun(3, func() { _ = run() })
	report(b, "driver=ours", f)
	report(b, "driver=empty", bare.figures())
}

// bareCalls reads files and links with as few system calls as it takes.
func bareCalls(root string, names []counted.Name) {
	var buf [4096]byte
	for _, name := range names {
		path := root + "/" + name.Path
		if name.Link {
			_, _ = syscall.Readlink(path, buf[:])
			continue
		}
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue // it was not there for us either
		}
		_, _ = syscall.Read(fd, buf[:])
		syscall.Close(fd)
	}
}

// BenchmarkGenerate is cdi-gen from start to end, over a program that does nothing.
func BenchmarkGenerate(b *testing.B) {
	const rounds = 15
	for _, h := range hosts {
		b.Run(fmt.Sprintf("devices=%d/gids=%d", h.devices, h.gids), func(b *testing.B) {
			root := hostDir(b, h.devices, h.gids)
			ours, empty := compare(b, rounds,
				func() *exec.Cmd {
					return exec.Command(program(b, "cdi-gen"), generateArgs(root)...)
				},
				func() *exec.Cmd { return exec.Command(program(b, "nothing")) })
			f := ours.figures()
			f["ns/device"] = ours.median() / float64(h.devices)
			f["opened/device"] = float64(generateCalls(b, root)["calls on files"]) / float64(h.devices)
			report(b, "driver=ours", f)
			report(b, "driver=empty", empty.figures())
		})
	}
}

// compare runs two programs in turn, from fork to exit.
func compare(b *testing.B, rounds int, a, other func() *exec.Cmd) (ours, empty times) {
	b.Helper()
	run := func(of *times, make func() *exec.Cmd) func() {
		return func() {
			cmd := make()
			cmd.Stdout = io.Discard
			*of = append(*of, took(func() {
				must.NoError(b, cmd.Run(), must.Sprint(cmd.Args))
			}))
		}
	}
	both := []func(){run(&ours, a), run(&empty, other)}
	for round := range rounds {
		inTurn(round, both, func(f func()) { f() })
	}
	return ours, empty
}
