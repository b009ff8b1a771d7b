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
	dir    *os.File
	former string // where drivers before this version have their store
}

// Enter waits while another driver leaves the node for good, and takes over what a driver of
// an earlier version has left in its directory. As long as one works there, this one does too:
// see [Presence.Dir]. Call it before anything is put on the node that a driver takes away when
// it leaves.
func Enter(dir, former string, boot Boot) (*Presence, error) {
	p, err := enter(dir)
	if err != nil || dir == former {
		return p, err
	}
	p.former = former
	moved, err := takeOver(former, dir, boot)
	if err != nil || moved {
		return p.unless(err)
	}
	there, err := enter(former) // waits for whoever is taking over just now
	if err != nil {
		return p.unless(err)
	}
	if moved, err = hasMoved(former, dir, boot); err != nil || moved {
		return p.unless(errors.Join(err, there.dir.Close()))
	}
	return there.unless(p.dir.Close())
}

// unless is the presence, unless there is an error, which ends it.
func (p *Presence) unless(err error) (*Presence, error) {
	if err != nil {
		return nil, errors.Join(err, p.dir.Close())
	}
	return p, nil
}

// enter takes a shared lock on a directory, and makes it if it is missing.
func enter(dir string) (*Presence, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the driver's directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the driver's directory: %w", err)
	}
	p := &Presence{dir: f}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("lock the driver's directory %q: %w", dir, err)
		}
		return p.unless(err)
	}
}

// Dir is where the driver has its store: the directory of this version, or the former one
// while a driver of an earlier version is on the node, since device locks must hold between
// the two, and each removes what it has no record of.
func (p *Presence) Dir() string { return p.dir.Name() }

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
	errs := []error{err, os.RemoveAll(s.claims()), os.RemoveAll(s.devices()), os.RemoveAll(s.lockPath()), os.RemoveAll(MetadataDir(s.dir))}
	for _, m := range memories {
		errs = append(errs, os.Remove(m))
	}
	if p.former != "" {
		errs = append(errs, os.RemoveAll(signPath(p.former)), os.RemoveAll(MetadataDir(p.former)))
	}
	return true, errors.Join(append(errs, besides())...)
}
