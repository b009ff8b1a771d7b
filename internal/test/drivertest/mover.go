package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// Mover does to the only HCA of the machine exclusive-netns what the kernel does when an RDMA device moves: the
// directory of the device leaves the host's sysfs, and its node gets another number. That the kernel really does so is
// shown in test/vm. A test must set the exported fields before the first move.
type Mover struct {
	// Fixed is the reason why the device cannot move, nil if it can.
	Fixed error
	// AfterIn is called after the device has moved into a pod, and BeforeOut before it moves back.
	AfterIn, BeforeOut func()

	t    testing.TB
	host *Host

	mu     sync.Mutex
	where  string          // the namespace that has the device, "" for the host's
	number int             // of the node: the device has moved so many times
	ended  map[string]bool // namespaces
	fails  error           // of the next move into a pod
}

// NewMover returns the Mover of a host.
func NewMover(t testing.TB, host *Host) *Mover {
	return &Mover{t: t, host: host, AfterIn: func() {}, BeforeOut: func() {}, ended: map[string]bool{}}
}

func (m *Mover) path(name string) string { return filepath.Join(m.host.Root, "sys", name) }

// Movable implements node.Mover.
func (m *Mover) Movable(string) error { return m.Fixed }

// In implements node.Mover.
func (m *Mover) In(_, netns string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ended[netns]:
		return false, fmt.Errorf("open network namespace %q: %w", netns, rdmanetns.ErrEnded)
	case m.where == netns:
		return false, nil
	case m.where != "":
		return false, fmt.Errorf("move it to %s: %w", netns, rdmanetns.ErrAbsent)
	case m.fails != nil:
		err := m.fails
		m.fails = nil
		return false, err
	}
	m.where = netns
	m.must(os.Rename(m.path("class/infiniband/mlx5_0"), m.path("moved")))
	m.renumber()
	m.AfterIn()
	return true, nil
}

// Out implements node.Mover.
func (m *Mover) Out(_, netns string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.where != netns {
		return false, nil
	}
	m.BeforeOut()
	m.where = ""
	m.must(os.Rename(m.path("moved"), m.path("class/infiniband/mlx5_0")))
	m.renumber()
	return true, nil
}

// renumber gives the device another node.
func (m *Mover) renumber() {
	const dir = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/infiniband_verbs/"
	old, now := fmt.Sprintf("uverbs%d", m.number), fmt.Sprintf("uverbs%d", m.number+1)
	m.number++
	m.must(os.Rename(m.path(dir+old), m.path(dir+now)))
	m.must(os.WriteFile(m.path(dir+now+"/dev"), fmt.Appendf(nil, "231:%d\n", 192+m.number), 0o644))
	m.must(os.Remove(m.path("class/infiniband_verbs/" + old)))
	m.must(os.Symlink("../../"+dir+now, m.path("class/infiniband_verbs/"+now)))
	m.must(os.Remove(m.host.Node(old)))
	m.must(unix.Mknod(m.host.Node(now), unix.S_IFCHR|0o666, int(unix.Mkdev(231, uint32(192+m.number)))))
}

func (m *Mover) must(err error) { test.NoError(m.t, err) }

// At returns the network namespace that has the device, "" for the host's, and the number of its node. The number is
// also how often the device has moved.
func (m *Mover) At() (netns string, number int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.where, m.number
}

// Moves returns how often the device has moved.
func (m *Mover) Moves() int {
	_, number := m.At()
	return number
}

// IsIn checks that a network namespace has the device now, "" for the host's.
func (m *Mover) IsIn(netns string) {
	m.t.Helper()
	where, _ := m.At()
	test.Eq(m.t, netns, where, test.Sprint("the namespace of the device"))
}

// WaitIn waits until a network namespace has the device.
func (m *Mover) WaitIn(netns string) {
	m.t.Helper()
	Eventually(m.t, func() error {
		if where, _ := m.At(); where != netns {
			return fmt.Errorf("the device is in %q, want %q", where, netns)
		}
		return nil
	})
}

// Fail lets the next move into a pod fail.
func (m *Mover) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

// End ends a network namespace. The kernel returns the device, and nothing can move into the namespace any more, though
// the driver may still be at work for a list of pods that had it.
func (m *Mover) End(netns string) {
	m.mu.Lock()
	m.ended[netns] = true
	m.mu.Unlock()
	_, err := m.Out("mlx5_0", netns)
	m.must(err)
}
