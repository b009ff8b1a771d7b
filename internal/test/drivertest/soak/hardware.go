package soak

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// machine has nine HCAs, each the only function of its card.
const machine = "hgx-h100"

// card is one HCA of the soak's host.
type card struct {
	address string // of its PCI function
	dir     string // and where that is, below /sys
	ibdev   string // the kernel's names for it now
	uverbs  string
	gone    bool // its driver has no HCA of it
	down    bool // its port is not ACTIVE
	seenBy  int  // which driver had published it when it went, 0 for none
}

// device is the name of the HCA.
func (c card) device() string {
	return "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(c.address)
}

// taint is the taint of the HCA, if it is published.
func (c card) taint() string {
	switch {
	case c.gone:
		return "rdma.dev/driver-unbound:NoSchedule"
	case c.down:
		return "rdma.dev/port-down:NoSchedule"
	}
	return ""
}

// hardware is a machine that changes: names move, links fail, HCAs come and go.
type hardware struct {
	t     testing.TB
	base  []tree.Entry
	names map[string]string // the machine's own names of ibdevs and uverbs, to the present ones
	cards []card

	changes int      // how often it changed
	events  []uevent // of the changes since the last time that it was applied
}

// uevent is what the kernel says of a device.
type uevent struct{ action, subsystem, dir, name, old string }

// message is the event as the kernel sends it.
func (e uevent) message() string {
	path := func(name string) string { return "/" + e.dir + "/" + e.subsystem + "/" + name }
	fields := []string{e.action + "@" + path(e.name), "ACTION=" + e.action, "DEVPATH=" + path(e.name), "SUBSYSTEM=" + e.subsystem}
	if e.old != "" {
		fields = append(fields, "DEVPATH_OLD="+path(e.old))
	}
	return strings.Join(fields, "\x00") + "\x00"
}

// tell notes what the kernel says when an HCA comes, goes or changes: "add", "remove" or "change".
func (h *hardware) tell(action string, c card) {
	h.events = append(h.events, uevent{action, "infiniband_verbs", c.dir, c.uverbs, ""}, uevent{action, "infiniband", c.dir, c.ibdev, ""})
}

func newHardware(t testing.TB) *hardware {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	h := &hardware{t: t, names: map[string]string{}}
	for _, e := range m.Tree().Entries() {
		h.base = append(h.base, e)
		switch dir, name := path.Split(e.Path); dir {
		case "sys/class/infiniband/":
			dir := path.Join("class/infiniband", e.Target, "../..")
			h.cards = append(h.cards, card{address: path.Base(dir), dir: dir, ibdev: name})
			h.names[name] = name
		case "sys/class/infiniband_verbs/":
			if strings.HasPrefix(name, "uverbs") {
				h.names[name] = name
			}
		}
	}
	for i := range h.cards {
		h.cards[i].uverbs = strings.Replace(h.cards[i].ibdev, "mlx5_", "uverbs", 1)
	}
	return h
}

// rename exchanges the kernel's names of the uverbs nodes of two HCAs, as a reload of
// their drivers in another order does, and those of the ibdevs too if both is true.
func (h *hardware) rename(a, b int, both bool) {
	swap := func(x, y *string) {
		for own, now := range h.names {
			switch now {
			case *x:
				h.names[own] = *y
			case *y:
				h.names[own] = *x
			}
		}
		*x, *y = *y, *x
	}
	each := func(action string) {
		for _, i := range []int{a, b} {
			if !h.cards[i].gone {
				h.tell(action, h.cards[i])
			}
		}
	}
	each("remove")
	swap(&h.cards[a].uverbs, &h.cards[b].uverbs)
	if both {
		swap(&h.cards[a].ibdev, &h.cards[b].ibdev)
	}
	each("add")
}

// goOrCome takes an HCA away, or brings it back.
func (h *hardware) goOrCome(i int) {
	c := &h.cards[i]
	if c.gone = !c.gone; c.gone {
		h.tell("remove", *c)
	} else {
		h.tell("add", *c)
	}
}

// apply makes a node have the hardware as it is now, and has the kernel say that
// something changed.
func (h *hardware) apply(n *drivertest.Worker) {
	h.t.Helper()
	names := h.replacer()
	var out tree.Tree
	for _, e := range h.base {
		if h.lacks(e) {
			continue
		}
		e.Data = h.state(e)
		e.Path, e.Target, e.Data = names.Replace(e.Path), names.Replace(e.Target), names.Replace(e.Data)
		must.NoError(h.t, out.Write(e))
	}
	m := fixture.New(machine, "A machine in trouble.", &out)
	h.changes++
	n.Become(h.t, m)
	announce(h.t, h.events)
	h.events = nil
}

// replacer replaces the machine's own names by the present ones.
func (h *hardware) replacer() *strings.Replacer {
	var pairs []string
	for own, now := range h.names {
		pairs = append(pairs, own, now)
	}
	return strings.NewReplacer(pairs...)
}

// applyLinks makes a node have the states of the ports of some HCAs as they are now, and has
// the kernel say so. The rest of the hardware is as it was applied last.
func (h *hardware) applyLinks(n *drivertest.Worker, cards ...int) {
	h.t.Helper()
	names := h.replacer()
	for _, i := range cards {
		c := h.cards[i]
		if c.gone {
			continue // it comes back in the state that it has then
		}
		for _, e := range h.base {
			if !strings.Contains(e.Path, c.address+"/infiniband/") || path.Base(e.Path) != "state" && path.Base(e.Path) != "phys_state" {
				continue
			}
			made := filepath.Join(n.Root, "sys", "made") // as in sysfs, nobody reads half of it
			must.NoError(h.t, errors.Join(os.WriteFile(made, []byte(h.state(e)), 0o444), os.Rename(made, filepath.Join(n.Root, names.Replace(e.Path)))))
		}
		h.tell("change", c)
	}
	h.changes++
	announce(h.t, h.events)
	h.events = nil
}

// lacks reports whether an entry is of an HCA that is gone. The PCI function stays.
func (h *hardware) lacks(e tree.Entry) bool {
	return slices.ContainsFunc(h.cards, func(c card) bool {
		return c.gone && (strings.Contains(e.Path, c.address+"/infiniband") || strings.Contains(e.Target, c.address+"/infiniband"))
	})
}

// state is the content of an entry, with the state of its port.
func (h *hardware) state(e tree.Entry) string {
	for _, c := range h.cards {
		if !c.down || !strings.Contains(e.Path, c.address+"/infiniband/") {
			continue
		}
		switch path.Base(e.Path) {
		case "state":
			return "1: DOWN\n"
		case "phys_state":
			return "2: Polling\n"
		}
	}
	return e.Data
}

// announce sends what the kernel sends when HCAs change. Listeners that only believe
// the kernel find the changes by themselves, but later.
func announce(t testing.TB, events []uevent) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	must.NoError(t, err)
	defer unix.Close(fd)
	for _, e := range events {
		if err := unix.Sendto(fd, []byte(e.message()), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
			t.Fatal(fmt.Errorf("announce a change: %w", err))
		}
	}
}
