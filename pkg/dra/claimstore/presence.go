package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Presence shows other processes that a driver works on the node: it holds a shared lock (flock) on
// the directory of the store. The kernel drops the lock when the process dies.
type Presence struct {
	dir   *os.File
	place string // path of the file with the place of the store
}

// place is the content of a file in the plugin's directory, which all drivers of a node share. It
// protects the specs of prepared claims: a driver with another state directory would remove them
// as orphans.
type place struct {
	BootID string `json:"bootID"`
	Dir    string `json:"stateDir"`
}

// Enter marks that a driver works on the node with a store in dir. It waits while another driver cleans up the
// node. It fails if the records of this boot are in another directory. Call it before you add anything to the node
// that Leave removes.
func Enter(dir, pluginDir string, boot Boot) (*Presence, error) {
	f, err := lockShared(dir)
	if err != nil {
		return nil, err
	}
	p := &Presence{dir: f, place: filepath.Join(pluginDir, "state.json")}
	if err := p.checkPlace(place{boot.ID, dir}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// Alone reports whether no driver works on the node with a store in dir.
func Alone(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the driver's directory: %w", err)
	}
	defer f.Close() // with the lock
	alone, err := flock.TryLock(f)
	if err != nil {
		return false, fmt.Errorf("lock the driver's directory %q: %w", dir, err)
	}
	return alone, nil
}

// checkPlace compares the place of the store with that of other drivers of this boot, and records it.
func (p *Presence) checkPlace(here place) error {
	var known place
	data, err := hostfs.ReadLocal(p.place, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read where claims are recorded: %w", err)
	case json.Unmarshal(data, &known) == nil && known == here:
		return nil
	case known.BootID == here.BootID && known.Dir != here.Dir:
		return fmt.Errorf("claims of this boot are recorded in %q, and this driver is to keep them in %q: "+
			"set its state directory back, or drain the node and then delete the driver's pod", known.Dir, here.Dir)
	}
	if data, err = json.Marshal(here); err == nil {
		err = os.MkdirAll(filepath.Dir(p.place), 0o750)
	}
	if err == nil {
		_, err = atomicfile.Write(p.place, append(data, '\n'), atomicfile.Options{Mode: 0o644})
	}
	if err != nil {
		return fmt.Errorf("record where the claims of this boot are: %w", err)
	}
	return nil
}

// lockShared takes a shared lock on a directory, and makes it if it is missing.
func lockShared(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the driver's directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the driver's directory: %w", err)
	}
	if err := flock.LockShared(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the driver's directory %q: %w", dir, err), f.Close())
	}
	return f, nil
}

// Leave ends the presence. If no claim of any boot has a record, and no other driver is present,
// it removes all state of drivers, and calls cleanUp to remove what the caller added to the node. It
// reports whether it did. The directory itself stays.
func (p *Presence) Leave(cleanUp func() error) (last bool, err error) {
	defer func() { err = errors.Join(err, p.dir.Close()) }()
	alone, err := flock.TryLock(p.dir)
	if err != nil {
		return false, fmt.Errorf("lock the driver's directory %q: %w", p.dir.Name(), err)
	}
	if !alone {
		return false, nil
	}
	s := newStore(p.dir.Name(), Boot{})
	uids, err := s.uids()
	if err != nil || len(uids) > 0 {
		return false, err
	}
	memories, err := filepath.Glob(s.Memory().path("*"))
	errs := []error{err}
	for _, path := range append(memories, s.claims(), s.devices.dir, s.locks.path, s.Metadata().Dir, p.place) {
		errs = append(errs, os.RemoveAll(path))
	}
	return true, errors.Join(append(errs, cleanUp())...)
}
