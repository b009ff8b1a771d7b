package watch

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestKernel listens to the real kernel in a network namespace of its own: an interface
// of interest goes down, comes up, gets an address, another name, and goes; others do
// the same, and wake nobody.
func TestKernel(t *testing.T) {
	needs.Root(t, "a network namespace")
	runtime.LockOSThread() // never unlocked: no other goroutine may run on it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		needs.Missing(t, fmt.Errorf("make a network namespace: %w", err))
	}
	if out, err := exec.Command("ip", "link", "add", "old0", "type", "veth", "peer", "name", "old1").
		CombinedOutput(); err != nil {
		needs.Missing(t, fmt.Errorf("make a veth: %w: %s", err, out))
	}
	w := Start(t.Context(), Config{Report: func(err error) { t.Log(err) }})
	w.FollowInterest(Interest{Netdevs: rdma.NamesOf("old0", "new0")})
	next := func(what string) Signal {
		t.Helper()
		select {
		case s := <-w.Signals():
			return s
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: no signal", what)
		}
		return Signal{}
	}
	if s := next("the start"); !s.All {
		t.Errorf("the first signal is about %s", s)
	}
	for _, step := range []struct {
		command string
		want    string // of interest
	}{
		{"link set old0 up", "old0"},
		{"link set old1 up", "old0"}, // which has a carrier now
		{"address add 192.0.2.1/24 dev old0", "old0"},
		{"link set old0 address 02:00:00:00:00:07", "old0"},
		{"link set old0 mtu 1400", ""},
		{"link add veth0 type veth peer name veth1", ""},
		{"link set veth0 up", ""},
		{"address add 192.0.2.9/24 dev veth1", ""},
		{"link del veth0", ""},
		{"link set old0 down", "old0"},
		{"link set old0 name other0", "old0"},
		{"link set other0 name new0", "new0"},
		{"link del new0", "new0"},
	} {
		argv := strings.Fields(step.command)
		if out, err := exec.Command("ip", argv...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", step.command, err, out)
		}
		if step.want == "" {
			continue // a signal about it would be found below
		}
		for s := next(step.command); ; s = next(step.command) {
			for name := range s.Netdevs {
				if strings.HasPrefix(name, "veth") || s.All {
					t.Errorf("ip %s: a signal about %s", step.command, s)
				}
			}
			if s.Netdevs.Has(step.want) {
				break
			}
		}
	}
}
