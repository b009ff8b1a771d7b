package node

import (
	"path/filepath"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// midway calls a function in the middle of each move.
type midway func()

func (m midway) Movable(string) error { return nil }

func (m midway) In(string, string) (bool, error) { m(); return true, nil }

func (m midway) Out(string, string) (bool, error) { m(); return true, nil }

// TestNotReadMidway: nobody reads the host in the middle of a move. The device would be gone, and three such readings
// within a minute make it unhealthy.
func TestNotReadMidway(t *testing.T) {
	var n *Node
	moves := 0
	mover := midway(func() {
		moves++
		if n.scan.TryLock() {
			n.scan.Unlock()
			t.Error("the host can be read in the middle of a move")
		}
	})
	n = opened(t, Config{Sys: sysfs.DirFS(filepath.Join(rdmatest.Root(t, "roce-sriov"), "sys")), Mover: mover})
	for _, move := range []func(string, string) (bool, error){n.In, n.Out} {
		if _, err := move("mlx5_2", "/run/netns/pod"); err != nil {
			t.Error(err)
		}
	}
	if moves != 2 {
		t.Errorf("%d moves, want 2", moves)
	}
	if err := n.Rescan(); err != nil { // the lock is free again
		t.Error(err)
	}
}
