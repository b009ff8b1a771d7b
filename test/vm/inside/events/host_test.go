package events

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	os.Exit(m.Run())
}

// limit is how long a signal may take on an emulated processor that others share.
const limit = 2 * time.Minute

// host is the guest as a program sees it that follows events: the watcher, and a
// picture that it alone keeps right.
type host struct {
	*testing.T
	watcher *watch.Watcher
	scanner *rdma.Scanner
	picture *rdma.Snapshot
}

func open(t *testing.T, c watch.Config) *host {
	t.Helper()
	c.Report = func(err error) { t.Logf("watcher: %v", err) }
	h := &host{T: t, watcher: watch.Start(t.Context(), c)}
	h.scanner = rdma.NewScanner(sysfs.DirFS("/sys"))
	h.take(h.next("the start"))
	h.settle()
	return h
}

// next waits for a signal.
func (h *host) next(what string) watch.Signal {
	h.Helper()
	select {
	case s := <-h.watcher.Signals():
		return s
	case <-time.After(limit):
		h.Fatalf("%s: no signal within %s", what, limit)
	}
	return watch.Signal{}
}

// take looks at what a signal names.
func (h *host) take(s watch.Signal) {
	h.Helper()
	snap, err := h.scanner.Update(s.Changes)
	if err != nil {
		h.Fatal(err)
	}
	h.picture = snap
	h.watcher.Follow(snap)
}

// settle takes signals until none has come for a while.
func (h *host) settle() {
	h.Helper()
	for {
		select {
		case s := <-h.watcher.Signals():
			h.take(s)
		case <-time.After(time.Second):
			return
		}
	}
}

// change is a change of the host: a command, what signals about it must name, in all,
// and the HCAs that it is about.
type change struct {
	what    string
	argv    string
	named   rdma.Changes
	differ  []string // names of HCAs
	picture func(*rdma.Snapshot) bool
}

// follow makes a change and takes signals until the picture shows it. It reports how
// long that took; then the picture must be that of a look at the whole host.
func (h *host) follow(c change) {
	h.Helper()
	before, named := h.picture, rdma.Changes{}
	start := time.Now()
	inside.Must(h.T, strings.Fields(c.argv)...)
	returned := time.Since(start)
	var heard, known time.Duration
	for known == 0 {
		s := h.next(c.what)
		if heard == 0 {
			heard = s.First.Sub(start)
		}
		h.take(s)
		named.Merge(s.Changes)
		if c.picture(h.picture) {
			known = time.Since(start)
		}
	}
	more := h.rest(&named, 500*time.Millisecond)
	h.Logf("%-22s command %4d ms; first event after %4d ms, picture right after %4d ms, %d more signals; named: %s",
		c.what, returned.Milliseconds(), heard.Milliseconds(), known.Milliseconds(), more, named)
	if named.All {
		h.Errorf("%s: a signal about everything; events were lost", c.what)
	}
	if missing := lacks(named, c.named); missing != "" {
		h.Errorf("%s: no signal named %s; they named %s", c.what, missing, named)
	}
	if foreign := strangers(named); len(foreign) > 0 {
		h.Errorf("%s: signals about %v, which are of no interest", c.what, foreign)
	}
	if got := rdma.Compare(before, h.picture).HCAs; !slices.Equal(got, c.differ) {
		h.Errorf("%s: HCAs %v differ; want %v", c.what, got, c.differ)
	}
	h.checkWhole(c.what)
}

// rest takes the signals that still come, until it has been quiet, and counts them.
func (h *host) rest(named *rdma.Changes, quiet time.Duration) (n int) {
	for {
		select {
		case s := <-h.watcher.Signals():
			h.take(s)
			named.Merge(s.Changes)
			n++
		case <-time.After(quiet):
			return n
		}
	}
}

// checkWhole compares the picture with a look at the whole host.
func (h *host) checkWhole(what string) {
	h.Helper()
	whole, err := rdma.Discover(sysfs.DirFS("/sys"))
	if err != nil {
		h.Fatal(err)
	}
	want, err1 := json.MarshalIndent(whole, "", "  ")
	got, err2 := json.MarshalIndent(h.picture, "", "  ")
	if err1 != nil || err2 != nil || string(want) != string(got) {
		h.Errorf("%s: the picture is\n%s\nand a look at the whole host gives\n%s", what, got, want)
	}
}

// lacks names what is not among the changes.
func lacks(named, want rdma.Changes) string {
	rest := rdma.Changes{Host: want.Host && !named.Host}
	for _, set := range []struct {
		to          *rdma.Names
		named, want rdma.Names
	}{{&rest.IBDevs, named.IBDevs, want.IBDevs}, {&rest.Nodes, named.Nodes, want.Nodes}, {&rest.Netdevs, named.Netdevs, want.Netdevs}} {
		for name := range set.want {
			if !set.named.Has(name) {
				set.to.Add(name)
			}
		}
	}
	if rest.Empty() {
		return ""
	}
	return rest.String()
}

// strangers are interfaces that no HCA has anything to do with.
func strangers(named rdma.Changes) []string {
	return slices.DeleteFunc(named.Netdevs.Sorted(), func(name string) bool { return !strings.HasPrefix(name, "veth") })
}

// hca finds an HCA by its kernel name, nil if there is none.
func hca(snap *rdma.Snapshot, ibdev string) *rdma.HCA {
	for i := range snap.HCAs {
		if snap.HCAs[i].IBDev == ibdev {
			return &snap.HCAs[i]
		}
	}
	return nil
}

func active(h *rdma.HCA) bool {
	p := h.Port1()
	return p != nil && p.State == rdma.PortActive
}

// has and hasNot are pictures with an HCA that is complete, and without.
func has(ibdev string) func(*rdma.Snapshot) bool {
	return func(s *rdma.Snapshot) bool {
		h := hca(s, ibdev)
		return h != nil && h.Uverbs != nil && active(h)
	}
}

func hasNot(ibdev string) func(*rdma.Snapshot) bool {
	return func(s *rdma.Snapshot) bool { return hca(s, ibdev) == nil }
}

func isActive(ibdev string, want bool) func(*rdma.Snapshot) bool {
	return func(s *rdma.Snapshot) bool {
		h := hca(s, ibdev)
		return h != nil && active(h) == want
	}
}
