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

// There are two locks. That of the directory is everybody's, and is held for as long as the kernel and some files take: one interface
// is in one pod, and an address too. That of a lease is held while a CNI plugin is asked for one pod, which may take
// seconds: it keeps a second caller from asking for the same. Who has both took that of the lease first.

// lock keeps out other processes and other callers, until unlock.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lock records of network interfaces: %w", err)
	}
	if err := flock.Lock(ctx, dir); err != nil {
		dir.Close()
		if errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("another driver has the records of network interfaces in %q: %w", s.dir, err)
		}
		return nil, fmt.Errorf("lock records of network interfaces in %q: %w", s.dir, err)
	}
	return func() { dir.Close() }, nil
}

// lockSuffix is of files that are there while a plugin is asked.
const lockSuffix = ".lock"

// lockLease keeps out those who would ask a plugin for the address of the same record, until unlock.
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
		f.Close() // who had it has removed it, and another one has made it anew
	}
}

// isAt reports whether a file is still the one of the path.
func isAt(f *os.File, path string) bool {
	has, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(has, now)
}

// sweepLocks removes the lock files of drivers that were killed.
func (s *store) sweepLocks() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*"+lockSuffix))
	errs := []error{err}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // nobody is waited for
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
