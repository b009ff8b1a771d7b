package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
)

// Presence says that a driver works on the node: it holds a shared lock (flock) on the
// directory of the store. The kernel drops it when the process dies.
type Presence struct {
	dir   *os.File
	place string // the file that says where the store is
}

// place is the content of a file in the plugin's directory, which is the same for all drivers of
// a node. A driver that is given another state directory would take the specs of prepared claims
// for rubbish.
type place struct {
	BootID string `json:"bootID"`
	Dir    string `json:"stateDir"`
}

// Enter says that a driver works on the node with a store in dir. It waits while another driver leaves
// the node for good. It fails where claims of this boot are recorded in another directory. Call it before
// anything is put on the node that a driver takes away when it leaves.
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

// checkPlace compares the place of the store with where drivers of this boot have had it, and writes it down.
func (p *Presence) checkPlace(here place) error {
	var known place
	data, err := os.ReadFile(p.place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look where claims are recorded: %w", err)
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
		return fmt.Errorf("write down where claims are recorded: %w", err)
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
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the driver's directory %q: %w", dir, err), f.Close())
		}
		return f, nil
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
	errs := []error{err}
	for _, path := range append(memories, s.claims(), s.devices(), s.lockPath(), MetadataDir(s.dir), p.place) {
		errs = append(errs, os.RemoveAll(path))
	}
	return true, errors.Join(append(errs, besides())...)
}
