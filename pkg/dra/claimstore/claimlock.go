package claimstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
)

// slots is the number of locks for claims. It is more than the kubelet's concurrent calls. All drivers of a node
// must have the same number.
const slots = 1024

// claimLocks are the locks of claims. A slot is a byte of a file for other processes, and a name for the goroutines
// of this one. The file stays open, so locking a claim opens no file.
type claimLocks struct {
	path  string
	turns flock.Names // of slots, within this process

	mu   sync.Mutex
	file *os.File
}

// LockClaim keeps all others, in this process and in other ones, from preparing, restoring and ending a claim until
// the caller calls release. It waits until ctx ends. The kernel drops the lock when the process dies. Two claims may
// share a lock, so a caller must not hold two of them. Take locks of devices after the lock of the claim.
func (s *Store) LockClaim(ctx context.Context, uid types.UID) (release func(), err error) {
	if err := checkName(string(uid)); err != nil {
		return nil, lockError(uid, err)
	}
	slot := slotOf(uid)
	unlock, err := s.locks.turns.Lock(ctx, fmt.Sprintf("byte %d of %s", slot, s.locks.path))
	if err != nil {
		return nil, lockError(uid, err)
	}
	f, err := s.locks.lockSlot(ctx, slot)
	if err != nil {
		unlock()
		return nil, lockError(uid, err)
	}
	return func() {
		_ = flock.UnlockByte(f, slot) // it fails only for a closed file
		unlock()
	}, nil
}

func lockError(uid types.UID, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("another call, or another driver of the node, is working on it: %w", err)
	}
	return fmt.Errorf("lock claim %s: %w", uid, err)
}

// slotOf returns the slot of a claim. All drivers of a node must use the same function.
func slotOf(uid types.UID) int64 {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return int64(h.Sum32() % slots)
}

// lockSlot locks a slot of the lock file. It opens the file again if that was removed meanwhile, because another
// process would not see the lock of a removed file. The old file stays open while somebody holds a lock of it.
func (l *claimLocks) lockSlot(ctx context.Context, slot int64) (*os.File, error) {
	for {
		f, err := l.open()
		if err != nil {
			return nil, err
		}
		if err := flock.LockByte(ctx, f, slot); err != nil {
			return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		exists, err := flock.HasName(f)
		if exists {
			return f, nil
		}
		_ = flock.UnlockByte(f, slot)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		if l.file == f {
			l.file = nil
		}
		l.mu.Unlock()
	}
}

func (l *claimLocks) open() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		f, err := atomicfile.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o640)
		if err != nil {
			return nil, err
		}
		l.file = f
	}
	return l.file, nil
}
