package claimstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Presence says that a driver works on the node: it holds a shared lock (flock) on the
// directory of the store. The kernel drops it when the process dies.
type Presence struct {
	dir *os.File
}

// Enter waits while another driver leaves the node for good. Call it before anything
// is put on the node that a driver takes away when it leaves.
func Enter(dir string) (*Presence, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the driver's directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the driver's directory: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH)
		if err == nil {
			return &Presence{f}, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock the driver's directory %q: %w", dir, err), f.Close())
		}
	}
}

// Leave ends the presence. Where no claim has a record, of whatever boot, and no other
// driver is present, it removes all that drivers remember, and what the caller has put on
// the node besides; it reports whether that is so. The directory itself stays.
func (p *Presence) Leave(besides func() error) (last bool, err error) {
	defer func() { err = errors.Join(err, p.dir.Close()) }()
	err = unix.Flock(int(p.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock the driver's directory %q: %w", p.dir.Name(), err)
	}
	s := &Store{dir: p.dir.Name()}
	uids, err := s.uids()
	if err != nil || len(uids) > 0 {
		return false, err
	}
	memories, err := filepath.Glob(s.memoryPath("*"))
	errs := []error{err, os.RemoveAll(s.claims()), os.RemoveAll(s.devices())}
	for _, m := range memories {
		errs = append(errs, os.Remove(m))
	}
	return true, errors.Join(append(errs, besides())...)
}
