package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/flock"
)

// There are two locks. The lock of the directory excludes all other callers while the driver works with the kernel and
// the records. So an interface, and an address, is in one pod only. The lock of a lease is held while a CNI plugin is
// called for one pod, which may take seconds. It keeps a second caller from requesting the same address. Lock order:
// the lease before the directory.

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

// lockSuffix ends the names of lock files, which exist while a plugin is called.
const lockSuffix = ".lock"

// lockLease locks the lease of a record until unlock, so that no other caller calls the plugin for it.
func (s *store) lockLease(ctx context.Context, r *Record) (unlock func(), err error) {
	path := s.path(r) + lockSuffix
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
		if err == nil {
			err = flock.Lock(ctx, f)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock lease of network interface %q: a CNI plugin is asked for it: %w", path, err)
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
			errs = append(errs, fmt.Errorf("remove lock of a lease: %w", err))
		}
		f.Close()
	}
	return errors.Join(errs...)
}
