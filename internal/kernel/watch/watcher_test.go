package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// bench is a watcher on fake sources, in the bubble of a synctest.
type bench struct {
	*testing.T
	w                    *Watcher
	uevents, links, rdma []*closable // as they were opened
	refuse               error       // what opening RDMA gives
	reported             []error
	stop                 context.CancelFunc
}

func startBench(t *testing.T, again time.Duration) *bench {
	b := &bench{T: t}
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	open := func(to *[]*closable) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			if to == &b.rdma && b.refuse != nil {
				return nil, b.refuse
			}
			c := newClosable()
			*to = append(*to, c)
			return c, nil
		}
	}
	b.w = Start(ctx, Config{
		Uevents: open(&b.uevents), Links: open(&b.links), RDMA: open(&b.rdma),
		Report: func(err error) { b.reported = append(b.reported, err) }, Again: again,
	})
	b.expect("the start", "everything", 0)
	b.w.FollowInterest(*known)
	time.Sleep(time.Minute) // whatever follows a signal closely waits longer
	return b
}

// end stops the watcher, which must close its sources and its channel.
func (b *bench) end() {
	b.Helper()
	b.stop()
	for s := range b.w.Signals() {
		b.Errorf("a signal after the end: %s", s)
	}
	for _, c := range slices.Concat(b.uevents, b.links, b.rdma) {
		if c.isOpen() {
			b.Error("a source was left open")
		}
	}
}

// uevent and link have the kernel say something.
func (b *bench) uevent(message any) { b.uevents[len(b.uevents)-1].messages <- message }
func (b *bench) link(message any)   { b.links[len(b.links)-1].messages <- message }

// expect waits for a signal about what is wanted, at the latest after so long.
func (b *bench) expect(what, want string, within time.Duration) Signal {
	b.Helper()
	start := time.Now()
	select {
	case s := <-b.w.Signals():
		if s.String() != want {
			b.Errorf("%s: a signal about %s; want %s", what, s, want)
		}
		return s
	case <-time.After(within + time.Microsecond):
		b.Fatalf("%s: no signal within %v", what, time.Since(start))
	}
	return Signal{}
}

// silence asserts that nothing comes for a long time.
func (b *bench) silence(what string) {
	b.Helper()
	select {
	case s := <-b.w.Signals():
		b.Errorf("%s: a signal about %s", what, s)
	case <-time.After(time.Hour):
	}
}

func inBubble(t *testing.T, c func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t, -1)
		c(b)
		b.end()
	})
}

const quiet = 2 * time.Millisecond

// TestStart: one signal, though both sources begin; and a burst right after it.
func TestStart(t *testing.T) {
	inBubble(t, func(b *bench) { b.silence("after the start") })
	synctest.Test(t, func(t *testing.T) {
		source := newClosable()
		open := func() (io.ReadCloser, error) { return newClosable(), nil }
		ctx, cancel := context.WithCancel(t.Context())
		w := Start(ctx, Config{Uevents: func() (io.ReadCloser, error) { return source, nil }, Links: open, RDMA: open,
			Again: -1})
		<-w.Signals()
		source.messages <- rxeAdd
		time.Sleep(quiet)
		source.messages <- uevent("add", virtual+"/infiniband/rxe1", "infiniband")
		if s := <-w.Signals(); s.String() != "HCAs rxe0 rxe1" {
			t.Errorf("a signal about %s; want both HCAs", s)
		}
		cancel()
		for range w.Signals() {
		}
	})
}

func TestWatcher(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 100 {
			b.uevent(uevent("add", fmt.Sprintf("%s/net/veth%d", virtual, i), "net"))
			b.link(newLink(100+i, fmt.Sprintf("veth%d", i), up))
			b.link(addressMessage(unix.RTM_NEWADDR, 100+i, "\x0a\x00\x00\x02", 0))
		}
		b.silence("interfaces of containers")

		start := time.Now()
		b.link(newLink(2, "eth0", down))
		if s := b.expect("one event", "interfaces eth0", quiet); s.First.Before(start) || time.Since(s.First) != quiet {
			b.Errorf("the first event was %v ago; want %v", time.Since(s.First), quiet)
		}
		b.silence("one event has one signal")

		for i := range 8 {
			b.uevent(uevent("add", fmt.Sprintf("%s/infiniband/mlx5_%d", pf, i), "infiniband"))
			b.uevent(uevent("add", fmt.Sprintf("%s/infiniband_verbs/uverbs%d", pf, i), "infiniband_verbs"))
			time.Sleep(time.Millisecond)
		}
		b.link(newLink(2, "eth0", up))
		b.expect("a burst", "HCAs mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7, nodes uverbs0 uverbs1 uverbs2 "+
			"uverbs3 uverbs4 uverbs5 uverbs6 uverbs7, interfaces eth0", quiet)
		b.silence("a burst has one signal")

		b.uevent(rxeAdd)
		time.Sleep(time.Minute)
		b.link(newLink(2, "eth0", down))
		synctest.Wait()
		b.expect("what nobody took yet", "HCAs rxe0, interfaces eth0", quiet)
	})
}

// TestAgain: HCAs and interfaces are named once more, when it has been quiet.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t, 0)
		b.link(newLink(2, "eth0", down))
		b.expect("an event", "interfaces eth0", quiet)
		time.Sleep(500 * time.Millisecond)
		b.uevent(rxeAdd)
		b.uevent(uevent("add", virtual+"/infiniband_verbs/uverbs0", "infiniband_verbs"))
		b.expect("another", "HCAs rxe0, nodes uverbs0", quiet)
		start := time.Now()
		b.expect("once more", "HCAs rxe0, interfaces eth0", time.Second+quiet)
		test.LessEq(t, 10*time.Millisecond, time.Second-time.Since(start), test.Sprint("too early"))
		b.silence("and that is all")
		b.uevent(unix.ENOBUFS)
		b.expect("an overflow", "everything", quiet)
		b.silence("everything is named once")
		b.end()
	})
}

// TestStorm: events that keep coming make a signal each fifth of a second at first, as
// long as there are pauses, and one a second without any. The last event is not lost.
func TestStorm(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		most  int // signals of 1000 events
	}{{100 * time.Millisecond, 1000}, {20 * time.Millisecond, 25}, {time.Millisecond, 3}} {
		inBubble(t, func(b *bench) {
			done := make(chan struct{})
			var signals int
			var last Signal
			go func() {
				defer close(done)
				for {
					select {
					case last = <-b.w.Signals():
						signals++
					case <-time.After(2 * time.Second):
						return
					}
				}
			}()
			for i := range 1000 {
				b.uevent(uevent("change", fmt.Sprintf("%s/infiniband/rdma%d", virtual, i), "infiniband"))
				time.Sleep(c.pause)
			}
			<-done
			if signals > c.most || signals == 0 || !last.IBDevs.Has("rdma999") {
				b.Errorf("1000 events %v apart: %d signals, the last about %s; want at most %d, the last with rdma999", c.pause,
					signals, last, c.most)
			}
		})
	}
}

// TestLost: a socket that overflows or fails is a signal to look at everything, and
// neither a spin nor silence.
func TestLost(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.uevent(unix.ENOBUFS)
		b.expect("uevents overflow", "everything", quiet)
		b.uevent(rxeAdd)
		b.expect("the socket still works", "HCAs rxe0", time.Second)
		time.Sleep(time.Minute)
		b.link(unix.ENOBUFS)
		b.expect("links overflow", "everything", quiet)

		time.Sleep(time.Minute)
		broken := errors.New("broken")
		b.link(broken)
		b.expect("links end, and are opened again", "everything", time.Second*3/2+quiet)
		b.uevent(broken)
		b.expect("uevents end, and are opened again", "everything", time.Second*3/2+quiet)
		if len(b.links) != 2 || len(b.uevents) != 2 || len(b.reported) != 2 || !errors.Is(b.reported[0], broken) {
			b.Errorf("links opened %d times, uevents %d times; reported %v", len(b.links), len(b.uevents), b.reported)
		}
		b.silence("no spin")
		b.link(newLink(2, "eth0", up))
		b.expect("the new socket works", "interfaces eth0", quiet)
	})
}

// TestOpenFails: a source that cannot be opened is tried again.
func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		var failed atomic.Int32
		source := newClosable()
		w := Start(ctx, Config{
			Uevents: func() (io.ReadCloser, error) {
				if attempts++; attempts < 4 {
					return nil, unix.EMFILE
				}
				return source, nil
			},
			Links:  func() (io.ReadCloser, error) { return newClosable(), nil },
			Report: func(error) { failed.Add(1) },
		})
		<-w.Signals()
		for range 3 {
			s := <-w.Signals()
			test.True(t, s.All, test.Sprintf("a signal about %s", s))
		}
		test.Eq(t, 3, failed.Load(), test.Sprint("failures reported"))
		source.messages <- rxeAdd
		if s := <-w.Signals(); !s.IBDevs.Has("rxe0") {
			t.Errorf("a signal about %s", s)
		}
		cancel()
		for range w.Signals() {
		}
	})
}

// TestRDMASource: the socket of RDMA notifications is open while there are HCAs, and
// only then, so that the RDMA modules of a host can be unloaded.
func TestRDMASource(t *testing.T) {
	inBubble(t, func(b *bench) {
		isOpen := func(what string, want bool) {
			b.Helper()
			synctest.Wait()
			if got := len(b.rdma) > 0 && b.rdma[len(b.rdma)-1].isOpen(); got != want {
				b.Errorf("%s: open %v, want %v", what, got, want)
			}
		}
		isOpen("there are HCAs", true)
		b.rdma[0].messages <- rdmaMessage(2, attribute(rdmaDevName, "mlx5_0\x00"), attribute(rdmaNdevName, "bond0\x00"))
		b.expect("a port got another interface", "HCAs mlx5_0, interfaces bond0", quiet)
		b.w.FollowInterest(*known)
		b.uevent(uevent("remove", pf+"/infiniband/mlx5_0", "infiniband"))
		isOpen("an HCA goes", false)
		b.expect("an HCA goes", "HCAs mlx5_0", time.Second)
		isOpen("nobody has looked yet", false)
		b.w.FollowInterest(*known)
		isOpen("others are left", true)
		b.w.FollowInterest(Interest{})
		isOpen("none is left", false)
		b.silence("closing is no event")
		b.uevent(uevent("add", pf+"/infiniband/mlx5_0", "infiniband"))
		b.expect("an HCA comes", "HCAs mlx5_0", quiet)
		isOpen("nobody has looked yet", false)
		for _, err := range []error{unix.EPROTONOSUPPORT, unix.EPERM, unix.EINVAL} {
			b.refuse = err
			b.w.FollowInterest(*known)
			isOpen("the kernel has none", false)
		}
		if len(b.reported) > 0 {
			b.Errorf("reported %v; its absence is no failure", b.reported)
		}
		b.refuse = unix.EMFILE
		b.w.FollowInterest(*known)
		isOpen("another failure", false)
		if len(b.reported) != 1 {
			b.Errorf("reported %v; want one failure", b.reported)
		}
		b.refuse = nil
		b.w.FollowInterest(*known)
		isOpen("at last", true)
		b.rdma[len(b.rdma)-1].messages <- unix.ENOBUFS
		b.expect("an overflow", "everything", 2*quiet)
		isOpen("after an overflow", true)
	})
}

// TestFollow: what is of interest changes with the picture.
func TestFollow(t *testing.T) {
	inBubble(t, func(b *bench) {
		picture := func(netdevs ...string) *rdma.Snapshot {
			s := &rdma.Snapshot{}
			for i, name := range netdevs {
				id := rdma.Identity{PCI: fmt.Sprintf("0000:3b:00.%d", i)}
				s.HCAs = append(s.HCAs, rdma.HCA{Identity: id, Name: id.Name(), Function: rdma.PF,
					PCI: &rdma.PCIFunction{Address: id.PCI}, Ports: []rdma.Port{{Netdev: name}}})
			}
			return s
		}
		b.w.Follow(picture("eth1", "vlan1"))
		b.link(newLink(1, "vlan1", up))
		b.expect("of interest", "interfaces vlan1", quiet)
		b.link(newLink(7, "vlan7", up))
		b.silence("not yet of interest")
		b.w.Follow(picture("eth1", "vlan7"))
		b.link(newLink(7, "vlan7", down))
		b.expect("now of interest", "interfaces vlan7", quiet)
		b.link(newLink(1, "vlan1", down))
		b.silence("no longer of interest")
		flap := picture("eth1", "vlan7")
		flap.HCAs[0].Ports[0].State = rdma.PortDown
		b.w.Follow(flap)
		b.link(newLink(7, "vlan7", up))
		b.expect("as before", "interfaces vlan7", quiet)
		b.w.Follow(picture("eth1"))
		b.link(newLink(7, "vlan7", down))
		b.silence("its HCA is gone")
		b.uevent(uevent("unbind", "/devices/pci0000:3a/0000:3b:00.0", "pci", "PCI_CLASS=120000"))
		b.expect("a function", "PCI functions 0000:3b:00.0", quiet)
	})
}
