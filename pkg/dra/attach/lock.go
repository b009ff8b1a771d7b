package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
)

// There are two locks, which exclude other callers and other processes. The lock of a record is held while the driver
// works in the namespace of its pod, or calls a CNI plugin for it. Either may take long, and only this pod waits. Only
// the holder changes the record, and a caller holds one such lock at a time. The lock of the directory is held while
// the driver looks at all records and writes one of them. So an interface, and an address, is in one pod only. It is
// never held for work in the namespace of a pod, because all pods of the node wait for it. Lock order: the record
// before the directory.

// lock locks the directory against other processes and other callers in this one, until unlock.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := flock.Open(ctx, func() (*os.File, error) { return os.Open(s.dir) })
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("another driver uses the records of network interfaces in %q: %w", s.dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock records of network interfaces in %q: %w", s.dir, err)
	}
	return func() { dir.Close() }, nil
}

// lockSuffix ends the names of lock files, which exist while the lock of a record is held.
const lockSuffix = ".lock"

// lockRecord locks a record until unlock. The record need not exist.
func (s *store) lockRecord(ctx context.Context, r *Record) (unlock func(), err error) {
	path := s.path(r) + lockSuffix
	f, err := flock.Open(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640) })
	if err != nil {
		return nil, fmt.Errorf("lock record of network interface %q: the driver works in the pod, or asks a CNI plugin "+
			"for it: %w", path, err)
	}
	return func() { os.Remove(path); f.Close() }, nil
}

// sweepLocks removes the lock files of drivers that were killed. It leaves locks that are held.
func (s *store) sweepLocks() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*"+lockSuffix))
	errs := []error{err}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // so that flock.Open does not wait
	for _, path := range files {
		f, err := flock.Open(ended, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) })
		if err == nil {
			err = os.Remove(path)
			f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("remove lock of a record: %w", err))
		}
	}
	return errors.Join(errs...)
}
