package events

import (
	"net"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestKernelAnswers: the kernel tells anybody about the firmware, the link and the cable of a card, and nothing of a
// card that is not there.
func TestKernelAnswers(t *testing.T) {
	d := inside.NewNetdevsim(t)
	wants := func(when string, want ...genl.Reporter) {
		t.Helper()
		unprivileged(t, func() {
			got, err := new(genl.Kernel).Reporters("netdevsim", inside.NetdevsimDevice, "fw", "fw_fatal")
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: the health reporters are %+v, %v, want %+v", when, got, err, want)
			}
		})
	}
	wants("at first", genl.Reporter{Name: "fw"})
	d.Break()
	wants("in error", genl.Reporter{Name: "fw", Failed: true, Errors: 1})
	d.Recover()
	wants("recovered", genl.Reporter{Name: "fw", Errors: 1, Recoveries: 1})
	unprivileged(t, func() {
		kernel := new(genl.Kernel)
		if got, err := kernel.FECUncorrectable(d.Netdev); err != nil || got == nil {
			t.Errorf("uncorrectable blocks of netdevsim: %v, %v, want a number", got, err)
		}
		for _, netdev := range []string{d.Netdev, "dummy0", "eth0", "none"} {
			if got, err := kernel.SymbolErrors(netdev); err != nil || got != nil {
				t.Errorf("symbol errors of %s: %v, %v, want none", netdev, got, err)
			}
			if got, err := kernel.NoCable(netdev); err != nil || got {
				t.Errorf("%s has no cable: %v, %v", netdev, got, err)
			}
		}
		if got, err := kernel.Reporters("pci", "0000:00:00.0", "fw"); err != nil || got != nil {
			t.Errorf("a device without devlink has %v, %v", got, err)
		}
	})
}

// unprivileged calls f in a thread of a user without capabilities.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	thread.Do(func() {
		const user = 1000
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
			t.Errorf("become user %d: %v", user, errno)
			return
		}
		f()
	})
}

// TestPodAddsHCA: a pod with NET_ADMIN and without a claim can add software HCAs, also one on an interface with the name
// and the index of the host's. RDMA netlink tells them from the host's own, and no policy that asks for none offers them.
func TestPodAddsHCA(t *testing.T) {
	inside.NetnsMode(t, "shared")
	inside.Must(t, "ip", "netns", "add", "tenant")
	t.Cleanup(func() { inside.Run("ip", "netns", "del", "tenant") })
	index, err := net.InterfaceByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	inside.Must(t, "ip", "-n", "tenant", "link", "add", "eth0", "index", strconv.Itoa(index.Index), "type", "dummy")
	inside.Must(t, "ip", "-n", "tenant", "link", "set", "eth0", "up")
	inside.Must(t, "ip", "netns", "exec", "tenant", "rdma", "link", "add", "pod0", "type", "rxe", "netdev", "eth0")
	t.Cleanup(func() { inside.Run("rdma", "link", "del", "pod0") })
	s := rdma.NewScanner(sysfs.DirFS("/sys"))
	s.Software = node.Software(&genl.Kernel{})
	snap, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string]bool{}
	for _, d := range policy.Default().Apply(snap, policy.State{}).Decisions {
		offered[d.HCA.IBDev+" "+d.HCA.Name] = d.Form != resources.FormNone
		t.Logf("%s %s: %+v, %s %s", d.HCA.IBDev, d.HCA.Name, d.HCA.Software, d.Form, d.Reason)
	}
	if !offered["rxe0 soft-rxe-eth0"] || !offered["rxe1 "+onDummy0] || !offered["siw0 "+onDummy1] || len(offered) != 4 {
		t.Errorf("offered: %v, want the host's three under their names, and not the pod's", offered)
	}
	if pod := hca(snap, "pod0"); pod == nil || !pod.Foreign() {
		t.Errorf("the pod's HCA is %+v, want a foreign one", pod)
	}
}
