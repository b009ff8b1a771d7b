package node

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// midway calls a function in the middle of each move.
type midway func()

func (m midway) Movable(string) error { return nil }

func (m midway) In(string, string) (bool, error) { m(); return true, nil }

func (m midway) Out(string, string) (bool, error) { m(); return true, nil }

// answers is a Mover that gives one answer after the other.
type answers struct {
	midway
	left []error
}

func (a *answers) Movable(string) error {
	answer := a.left[0]
	a.left = a.left[1:]
	return answer
}

// TestAskedAgain: an HCA that was just moving into a pod when the kernel was asked can move into later pods. It was
// unpublished until the driver restarted.
func TestAskedAgain(t *testing.T) {
	absent := fmt.Errorf("ask: %w", rdmanetns.ErrAbsent)
	fixed := fmt.Errorf("ask: %w", rdmanetns.ErrFixed)
	hca := "pci-0000-3b-00-0"
	for _, c := range []struct {
		answers []error
		want    []string
	}{
		{[]error{absent, nil}, []string{"", "", ""}},
		{[]error{absent, fixed}, []string{"", fixed.Error(), fixed.Error()}},
		{[]error{unix.EMFILE, nil}, []string{unix.EMFILE.Error(), "", ""}},
		{[]error{nil}, []string{"", "", ""}},
	} {
		mover := &answers{left: c.answers}
		m := &Moves{mover: mover}
		snap := rdmatest.Snapshot(t, "exclusive-netns")
		for i, want := range c.want {
			got, ok := m.Fixed(&Host{}, snap)[hca]
			test.True(t, ok && got == want,
				test.Sprintf("%v: the reason at question %d is %q, want %q", c.answers, i+1, got, want))
		}
		test.Eq(t, 0, len(mover.left), test.Sprintf("%v: the kernel was not asked for %v", c.answers, mover.left))
	}
}

// TestOfferedAgain: an HCA about which the kernel did not answer is decided on again at the next poll, though nothing of
// the host changes.
func TestOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
			return nil, func(*rdma.Snapshot) {}
		}
		n := opened(t, Config{
			Sys:    sysfs.DirFS(filepath.Join(rdmatest.Root(t, "exclusive-netns"), "sys")),
			Source: quiet, Mover: &answers{left: []error{unix.EMFILE}},
		})
		decisions := 0
		nobody := func(context.Context, int, []health.Transition, []*plan.Plan) {}
		n.listener = Listener{Changed: func() { decisions++ }, Health: nobody}
		go n.Run(t.Context())
		after := func(polls int, want int) {
			t.Helper()
			time.Sleep(time.Duration(polls) * pollInterval)
			if synctest.Wait(); decisions != want {
				t.Errorf("%d decisions, want %d", decisions, want)
			}
		}
		after(1, 1) // the first reading
		after(1, 1)
		n.Moves.Fixed(n.Host(), n.Host().Snapshot)
		after(1, 2)
		after(1, 2)
	})
}

// TestNotReadMidway: nobody reads the host in the middle of a move. The device would be gone, and three such readings
// within a minute make it unhealthy.
func TestNotReadMidway(t *testing.T) {
	var n *Node
	moves := 0
	mover := midway(func() {
		moves++
		if n.Moves.scan.TryLock() {
			n.Moves.scan.Unlock()
			t.Error("the host can be read in the middle of a move")
		}
	})
	n = opened(t, Config{Sys: sysfs.DirFS(filepath.Join(rdmatest.Root(t, "roce-sriov"), "sys")), Mover: mover})
	for _, move := range []func(string, string) (bool, error){n.Moves.In, n.Moves.Out} {
		_, err := move("mlx5_2", "/run/netns/pod")
		test.NoError(t, err)
	}
	test.Eq(t, 2, moves, test.Sprint("moves"))
	if err := n.Rescan(); err != nil { // the lock is free again
		t.Error(err)
	}
}
