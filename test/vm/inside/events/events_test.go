package events

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// The devices that the test outside asked for, by name.
const (
	onDummy0 = "soft-rxe-dummy0" // rxe1
	onDummy1 = "soft-siw-dummy1" // siw0
)

// nodesOf names the nodes of an HCA.
func nodesOf(t *testing.T, snap *rdma.Snapshot, ibdev string) rdma.Names {
	t.Helper()
	h := hca(snap, ibdev)
	if h == nil || h.Uverbs == nil {
		t.Fatalf("no HCA %s with a uverbs node: %+v", ibdev, h)
	}
	names := rdma.NamesOf(h.Uverbs.Name)
	for _, n := range h.MADs {
		names.Add(n.Name)
	}
	return names
}

// TestEvents: each change of the host is followed by signals that name it, and by a
// picture that is right.
func TestEvents(t *testing.T) {
	h := open(t, watch.Config{})
	netdev, ibdev := rdma.Changes{Netdevs: rdma.NamesOf("dummy0")}, rdma.Changes{IBDevs: rdma.NamesOf("rxe1"), Nodes: nodesOf(t, h.picture, "rxe1")}
	any := func(*rdma.Snapshot) bool { return true }
	for _, c := range []change{
		{"link down", "ip link set dummy0 down", netdev, []string{onDummy0}, isActive("rxe1", false)},
		{"link up", "ip link set dummy0 up", netdev, []string{onDummy0}, isActive("rxe1", true)},
		{"link of iWARP down", "ip link set dummy1 down", rdma.Changes{Netdevs: rdma.NamesOf("dummy1")}, []string{onDummy1}, isActive("siw0", false)},
		{"link of iWARP up", "ip link set dummy1 up", rdma.Changes{Netdevs: rdma.NamesOf("dummy1")}, []string{onDummy1}, isActive("siw0", true)},
		{"address added", "ip address add 192.0.2.7/24 dev dummy0", netdev, nil, any},
		{"address removed", "ip address del 192.0.2.7/24 dev dummy0", netdev, nil, any},
		{"HCA removed", "rdma link del rxe1", ibdev, []string{onDummy0}, hasNot("rxe1")},
		{"HCA added", "rdma link add rxe1 type rxe netdev dummy0", ibdev, []string{onDummy0}, has("rxe1")},
		{"HCA renamed", "rdma dev set rxe1 name other", rdma.Changes{IBDevs: rdma.NamesOf("rxe1", "other")}, []string{onDummy0}, has("other")},
		{"HCA renamed back", "rdma dev set other name rxe1", rdma.Changes{IBDevs: rdma.NamesOf("rxe1", "other")}, []string{onDummy0}, has("rxe1")},
		{"rdma_ucm unloaded", "rmmod rdma_ucm", rdma.Changes{Host: true}, nil, func(s *rdma.Snapshot) bool { return s.RDMACM == nil }},
		{"rdma_ucm loaded", "modprobe rdma_ucm", rdma.Changes{Host: true}, nil, func(s *rdma.Snapshot) bool { return s.RDMACM != nil }},
	} {
		h.follow(c)
	}
}

// TestContainers: interfaces of containers come, are used and go, and wake nobody. A
// link that goes down afterwards shows that the watcher was listening.
func TestContainers(t *testing.T) {
	h := open(t, watch.Config{})
	for i := range 5 {
		name := fmt.Sprintf("veth%d", i)
		inside.Must(t, "ip", "link", "add", name, "type", "veth", "peer", "name", name+"p")
		inside.Must(t, "ip", "link", "set", name, "up")
		inside.Must(t, "ip", "address", "add", fmt.Sprintf("198.51.100.%d/32", i), "dev", name)
		inside.Must(t, "ip", "link", "set", name+"p", "up")
		inside.Must(t, "ip", "link", "del", name)
	}
	select {
	case s := <-h.watcher.Signals():
		t.Errorf("a signal about %s", s)
	case <-time.After(2 * time.Second):
	}
	netdev := rdma.Changes{Netdevs: rdma.NamesOf("dummy0")}
	h.follow(change{"link down", "ip link set dummy0 down", netdev, []string{onDummy0}, isActive("rxe1", false)})
	h.follow(change{"link up", "ip link set dummy0 up", netdev, []string{onDummy0}, isActive("rxe1", true)})
}

// TestLatency: how soon a link that fails is known.
func TestLatency(t *testing.T) {
	needs.Long(t, "it measures; TestEvents shows that a link that fails is known")
	h := open(t, watch.Config{Again: -1})
	link, err := netlink.LinkByName("dummy0")
	must.NoError(t, err)
	var heard, told, known []time.Duration
	const flaps = 200
	for flap := range flaps {
		set := netlink.LinkSetDown
		if flap%2 == 1 {
			set = netlink.LinkSetUp
		}
		start := time.Now()
		must.NoError(t, set(link))
		for first := true; ; first = false {
			s := h.next("a flap")
			if first {
				heard, told = append(heard, s.First.Sub(start)), append(told, time.Since(start))
			}
			h.take(s)
			if active(hca(h.picture, "rxe1")) == (flap%2 == 1) {
				break
			}
		}
		known = append(known, time.Since(start))
		h.rest(&rdma.Changes{}, 100*time.Millisecond) // a storm is signalled less soon
	}
	t.Logf("%d flaps, from the system call, p50 and p99: first event %v %v, signal %v %v, picture right %v %v", flaps,
		percentile(heard, 50), percentile(heard, 99), percentile(told, 50), percentile(told, 99), percentile(known, 50), percentile(known, 99))
	h.checkWhole("after the flaps")
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[(len(d)*p+99)/100-1].Round(10 * time.Microsecond)
}

// silent is a source of events in which nothing happens.
func silent() (io.ReadCloser, error) {
	r, _, err := os.Pipe()
	return r, err
}

// TestNotifications: this kernel has RDMA netlink notifications, and they alone tell
// of an HCA that comes, goes and gets another name.
func TestNotifications(t *testing.T) {
	w := watch.Start(t.Context(), watch.Config{Uevents: silent, Links: silent, Report: func(err error) { t.Error(err) }})
	<-w.Signals()
	w.FollowInterest(watch.Interest{HCAs: true})
	next := func(command string, ibdev string) {
		t.Helper()
		inside.Must(t, strings.Fields(command)...)
		for {
			select {
			case s := <-w.Signals():
				t.Logf("%s: %s", command, s)
				if s.IBDevs.Has(ibdev) {
					return
				}
			case <-time.After(limit):
				t.Fatalf("%s: no notification about %s", command, ibdev)
			}
		}
	}
	inside.Must(t, "rdma", "link", "del", "rxe1")
	time.Sleep(time.Second) // nobody says when the socket is open
	next("rdma link add rxe1 type rxe netdev dummy0", "rxe1")
	next("rdma link del rxe1", "rxe1")
	next("rdma link add rxe1 type rxe netdev dummy0", "rxe1")
}

// TestNetnsMode: a change of the netns mode raises no event, and the poll finds it.
func TestNetnsMode(t *testing.T) {
	h := open(t, watch.Config{})
	for _, mode := range []rdma.NetnsMode{rdma.NetnsExclusive, rdma.NetnsShared} {
		if c := h.scanner.Poll(); !c.Empty() {
			t.Errorf("before the change the poll finds %s", c)
		}
		inside.Must(t, "rdma", "system", "set", "netns", string(mode))
		select {
		case s := <-h.watcher.Signals():
			t.Logf("netns %s: a signal about %s", mode, s)
			h.take(s)
		case <-time.After(time.Second):
		}
		c := h.scanner.Poll()
		test.True(t, c.Host, test.Sprintf("netns %s: the poll finds %s", mode, c))
		h.take(watch.Signal{Changes: c})
		test.Eq(t, mode, h.picture.NetnsMode, test.Sprint("netns"))
		h.settle()
		h.checkWhole("netns " + string(mode))
	}
}

// TestModules unloads all RDMA modules, ib_core among them, which an open socket of RDMA
// notifications would hold, and loads them again. It comes last.
func TestModules(t *testing.T) {
	h := open(t, watch.Config{})
	h.follow(change{"rdma_rxe unloaded", "modprobe -r rdma_rxe", rdma.Changes{IBDevs: rdma.NamesOf("rxe0", "rxe1")},
		[]string{onDummy0, "soft-rxe-eth0"}, func(s *rdma.Snapshot) bool { return len(s.HCAs) == 1 }})
	h.follow(change{"siw unloaded", "modprobe -r siw", rdma.Changes{IBDevs: rdma.NamesOf("siw0")},
		[]string{onDummy1}, func(s *rdma.Snapshot) bool { return len(s.HCAs) == 0 }})
	for _, module := range []string{"rdma_ucm", "ib_uverbs", "ib_umad", "rdma_cm", "iw_cm", "ib_cm"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			inside.Must(t, "rmmod", module)
		}
	}
	unloadCore(t)
	h.settle()
	h.checkWhole("everything unloaded")
	if h.picture.RDMACM != nil || h.picture.NetnsMode != "" {
		// rdma_cm went with its event; the netns mode goes with ib_core, without one.
		if c := h.scanner.Poll(); !c.Host {
			t.Errorf("the poll finds %s", c)
		} else {
			h.take(watch.Signal{Changes: c})
		}
	}
	inside.Must(t, "modprobe", "-a", "ib_uverbs", "ib_umad", "rdma_ucm", "crc32_generic", "rdma_rxe", "siw")
	h.settle()
	for _, c := range []change{
		{"HCA added", "rdma link add rxe0 type rxe netdev eth0", rdma.Changes{IBDevs: rdma.NamesOf("rxe0")}, []string{"soft-rxe-eth0"}, has("rxe0")},
		{"second HCA added", "rdma link add rxe1 type rxe netdev dummy0", rdma.Changes{IBDevs: rdma.NamesOf("rxe1")}, []string{onDummy0}, has("rxe1")},
		{"iWARP HCA added", "rdma link add siw0 type siw netdev dummy1", rdma.Changes{IBDevs: rdma.NamesOf("siw0")}, []string{onDummy1}, has("siw0")},
	} {
		h.follow(c)
	}
}

// unloadCore unloads ib_core, which fails while anyone has a socket of RDMA netlink: so
// the watcher has none.
func unloadCore(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_RDMA)
	must.NoError(t, err)
	if r := inside.Run("rmmod", "ib_core"); r.Code == 0 || !strings.Contains(r.Out, "in use") {
		t.Errorf("rmmod ib_core beside an open socket: status %d, %s", r.Code, r.Out)
	}
	must.NoError(t, unix.Close(socket))
	inside.Must(t, "rmmod", "ib_core")
}
