package events

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/genl"
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		const user = 1000
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
			t.Errorf("become user %d: %v", user, errno)
			return
		}
		f()
	}()
	<-done
}
