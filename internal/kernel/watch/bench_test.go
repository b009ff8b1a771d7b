package watch

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// BenchmarkEvent is a link that fails, from the kernel's datagram to the cards that have
// to be published, on hosts of several sizes. The 2 ms of Quiet are part of it.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			host, err := fixture.Large(n)
			must.NoError(b, err)
			sys := &flapping{FS: host.FS(b)}
			scanner, links := rdma.NewScanner(sys), newClosable()
			w := Start(b.Context(), Config{
				Uevents: func() (io.ReadCloser, error) { return newClosable(), nil },
				Links:   func() (io.ReadCloser, error) { return links, nil },
				RDMA:    func() (io.ReadCloser, error) { return newClosable(), nil },
				Again:   -1,
				Storm:   2 * time.Millisecond, // a flap follows the one before closely here
			})
			snap, err := scanner.Update((<-w.Signals()).Changes)
			must.NoError(b, err)
			w.Follow(snap)
			netdev := snap.HCAs[n/2].Ports[0].Netdev
			sys.port = "infiniband/" + snap.HCAs[n/2].IBDev + "/ports/1/state"
			for b.Loop() {
				sys.down = !sys.down
				state := uint32(up)
				if sys.down {
					state = down
				}
				links.messages <- newLink(2, netdev, state)
				next, err := scanner.Update((<-w.Signals()).Changes)
				must.NoError(b, err)
				if d := rdma.Compare(snap, next); len(d.HCAs) != 1 {
					b.Fatalf("HCAs %v differ; want one", d.HCAs)
				}
				w.Follow(next)
				snap = next
			}
		})
	}
}

// flapping is a host with one port that is down now and then.
type flapping struct {
	*fixture.FS
	port string
	down bool
}

func (f *flapping) ReadFile(name string) ([]byte, error) {
	if f.down && strings.HasSuffix(name, f.port) {
		return []byte("1: DOWN\n"), nil
	}
	return fs.ReadFile(f.FS, name)
}
