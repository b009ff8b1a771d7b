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
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lock records of network interfaces: %w", err)
	}
	if err := flock.Lock(ctx, dir); err != nil {
		dir.Close()
		if errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("another driver uses the records of network interfaces in %q: %w", s.dir, err)
		}
		return nil, fmt.Errorf("lock records of network interfaces in %q: %w", s.dir, err)
	}
	return func() { dir.Close() }, nil
}

// lockSuffix ends the names of lock files, which exist while the lock of a record is held.
const lockSuffix = ".lock"

// lockRecord locks a record until unlock. The record need not exist.
func (s *store) lockRecord(ctx context.Context, r *Record) (unlock func(), err error) {
	path := s.path(r) + lockSuffix
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
		if err == nil {
			err = flock.Lock(ctx, f)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock record of network interface %q: the driver works in the pod, or asks a CNI plugin "+
				"for it: %w", path, err)
		}
		if isAt(f, path) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close() // its last holder has removed this file, and the path may have a new one
	}
}

// isAt reports whether an open file is still the file at the path.
func isAt(f *os.File, path string) bool {
	has, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(has, now)
}

// sweepLocks removes the lock files of drivers that were killed. It leaves locks that are held.
func (s *store) sweepLocks() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*"+lockSuffix))
	errs := []error{err}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // so that flock.Lock does not wait
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil && flock.Lock(ended, f) == nil && isAt(f, path) {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove lock of a record: %w", err))
		}
		f.Close()
	}
	return errors.Join(errs...)
}
