package claimstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/flock"
)

// slots is how many claims can be locked at once, unless two of them share a slot: more than a kubelet has
// threads for its calls. All drivers of a node have the same number.
const slots = 1024

// claimLocks are the locks of claims: a slot is a byte of a file for other processes, and a semaphore for the
// goroutines of this one. The file stays open, so that to lock a claim opens nothing.
type claimLocks struct {
	turns [slots]*semaphore.Weighted

	mu   sync.Mutex
	file *os.File
}

func (c *claimLocks) init() {
	for i := range c.turns {
		c.turns[i] = semaphore.NewWeighted(1)
	}
}

// LockClaim keeps everybody else from preparing, restoring and ending a claim, in this process and in others, until
// release is called. It waits until ctx ends; what a process holds the kernel drops when it dies. Two claims may
// share a lock, so nobody takes a second one. Whoever takes locks of devices too takes them after it.
func (s *Store) LockClaim(ctx context.Context, uid types.UID) (release func(), err error) {
	if err := checkName(string(uid)); err != nil {
		return nil, lockError(uid, err)
	}
	slot := slotOf(uid)
	turn := s.locks.turns[slot]
	if err := turn.Acquire(ctx, 1); err != nil {
		return nil, lockError(uid, err)
	}
	f, err := s.lockSlot(ctx, slot)
	if err != nil {
		turn.Release(1)
		return nil, lockError(uid, err)
	}
	return func() {
		_ = flock.UnlockByte(f, slot) // it fails for files that are not open
		turn.Release(1)
	}, nil
}

func lockError(uid types.UID, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("another call, or another driver of the node, is at work on it: %w", err)
	}
	return fmt.Errorf("lock claim %s: %w", uid, err)
}

// slotOf is the same in all drivers of a node.
func slotOf(uid types.UID) int64 {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return int64(h.Sum32() % slots)
}

// lockSlot locks a slot of the file that has its name: another process would not see the lock of one that was removed.
// A file that is replaced stays open as long as somebody has a lock of it.
func (s *Store) lockSlot(ctx context.Context, slot int64) (*os.File, error) {
	for {
		f, err := s.lockFile()
		if err != nil {
			return nil, err
		}
		if err := flock.LockByte(ctx, f, slot); err != nil {
			return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		is, err := isThere(f)
		if is {
			return f, nil
		}
		_ = flock.UnlockByte(f, slot)
		if err != nil {
			return nil, err
		}
		s.locks.mu.Lock()
		if s.locks.file == f {
			s.locks.file = nil
		}
		s.locks.mu.Unlock()
	}
}

func (s *Store) lockFile() (*os.File, error) {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	if s.locks.file == nil {
		f, err := atomicfile.OpenFile(s.lockPath(), os.O_RDWR|os.O_CREATE, 0o640)
		if err != nil {
			return nil, err
		}
		s.locks.file = f
	}
	return s.locks.file, nil
}

func (s *Store) lockPath() string { return filepath.Join(s.dir, "claims.lock") }
