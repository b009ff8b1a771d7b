package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
)

// Drivers before this version had their store in the plugin's directory, on a disk, and hold
// the shared lock of a [Presence] on it. A driver that has it alone takes over what they left,
// and puts a sign there (docs/adr/0023).

// sign is a file that says where the store is. It has the name of the directory that earlier
// versions keep records in, so that one that starts fails, instead of removing the specs of
// claims of which it knows nothing.
type sign struct {
	Note   string `json:"note"`
	BootID string `json:"bootID"`
	Dir    string `json:"stateDir"`
}

const signNote = "The records of claims are in stateDir. To go back to a version that keeps them here, drain the node " +
	"and delete the driver's pod: the driver removes this file when it ends and no claim is prepared."

func signPath(former string) string { return filepath.Join(former, "claims") }

// takeOver moves what drivers of an earlier version have left into dir, and puts up the sign.
// It reports false, and does nothing, while another driver has the former directory.
func takeOver(former, dir string, boot Boot) (bool, error) {
	if err := os.MkdirAll(former, 0o750); err != nil {
		return false, fmt.Errorf("make the plugin's directory: %w", err)
	}
	f, err := os.Open(former)
	if err != nil {
		return false, fmt.Errorf("open the plugin's directory: %w", err)
	}
	defer f.Close() // drops the lock
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock the plugin's directory %q: %w", former, err)
	}
	moved, err := hasMoved(former, dir, boot)
	switch {
	case err != nil:
	case moved:
		err = os.RemoveAll(MetadataDir(former)) // specs that named it were written anew
	default:
		err = move(former, dir, boot)
	}
	if err == nil {
		err = putSign(former, dir, boot)
	}
	return err == nil, err
}

func putSign(former, dir string, boot Boot) error {
	data, err := json.MarshalIndent(sign{signNote, boot.ID, dir}, "", "  ")
	if err == nil {
		_, err = atomicfile.Write(signPath(former), append(data, '\n'), atomicfile.Options{Mode: 0o644})
	}
	if err != nil {
		return fmt.Errorf("leave a sign for earlier versions: %w", err)
	}
	return nil
}

// hasMoved reports whether there is a sign. One of this boot that leads elsewhere is an
// error: this driver would take the specs of prepared claims for rubbish.
func hasMoved(former, dir string, boot Boot) (bool, error) {
	path := signPath(former)
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return false, nil
	}
	data, err := os.ReadFile(path)
	var s sign
	if err == nil && json.Unmarshal(data, &s) == nil && s.BootID == boot.ID && s.Dir != dir {
		err = fmt.Errorf("claims of this boot are recorded in %q, and this driver is to keep them in %q: "+
			"set its state directory back, or drain the node and then delete the driver's pod", s.Dir, dir)
	}
	if err != nil {
		return false, fmt.Errorf("look where the store is: %w", err)
	}
	return true, nil
}

// move copies a store of this boot to another directory, and removes the original. Files for
// containers stay until the next driver starts: specs name them until this one has written
// those anew. It can be repeated: whatever moment a process dies at, the original goes last.
func move(from, to string, boot Boot) error {
	old := &Store{dir: from, boot: boot}
	moved := old.claims() + ".moved"
	if err := os.RemoveAll(moved); err != nil { // of one that died
		return fmt.Errorf("remove records that were taken over: %w", err)
	}
	uids, err := old.uids()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = old.Void()
	}
	next, openErr := Open(to, boot)
	if err = errors.Join(err, openErr); err != nil {
		return fmt.Errorf("take over what an earlier version has left in %q: %w", from, err)
	}
	errs := []error{next.takeMemories(old), next.takeDevices(old)}
	for _, uid := range uids {
		errs = append(errs, next.takeRecord(old, uid))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take over what an earlier version has left in %q: %w", from, err)
	}
	// In one step: an earlier version that starts finds all records or none, and then the sign.
	return errors.Join(os.Rename(old.claims(), moved), putSign(from, to, boot), os.RemoveAll(moved), os.RemoveAll(old.devices()), os.RemoveAll(old.lockPath()), old.dropMemories())
}

// takeRecord copies a record, with the paths of its claim's files as they are here. One that
// this version does not understand is copied as it is, and keeps its HCAs.
func (s *Store) takeRecord(from *Store, uid types.UID) error {
	data, err := os.ReadFile(from.RecordPath(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was void
	}
	if r, bad := decode(data); err == nil && bad == nil && r.Version <= newestVersion {
		if r.Plan.Metadata != nil {
			r.Plan.Metadata.Dir = relocate(r.Plan.Metadata.Dir, from.dir, s.dir)
		}
		r.Plan.NCCLTopology = relocate(r.Plan.NCCLTopology, from.dir, s.dir)
		data, err = json.Marshal(r)
	}
	if err == nil {
		_, err = atomicfile.Write(s.RecordPath(uid), data, atomicfile.Options{Mode: 0o640})
	}
	return err
}

func relocate(path, from, to string) string {
	if rest, ok := strings.CutPrefix(path, from+"/"); ok {
		return filepath.Join(to, rest)
	}
	return path
}

// takeDevices makes the names of claims beside their HCAs.
func (s *Store) takeDevices(from *Store) error {
	names, err := filepath.Glob(filepath.Join(from.devices(), "*", "*"))
	for _, name := range names {
		dir := filepath.Join(s.devices(), filepath.Base(filepath.Dir(name)))
		err = errors.Join(err, os.MkdirAll(dir, 0o750))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), nil, 0o640)
		}
	}
	return err
}

func (s *Store) takeMemories(from *Store) error {
	paths, err := filepath.Glob(from.memoryPath("*"))
	for _, path := range paths {
		data, readErr := os.ReadFile(path)
		if err = errors.Join(err, readErr); readErr == nil {
			_, writeErr := atomicfile.Write(filepath.Join(s.dir, filepath.Base(path)), data, atomicfile.Options{Mode: 0o640})
			err = errors.Join(err, writeErr)
		}
	}
	return err
}

func (s *Store) dropMemories() error {
	paths, err := filepath.Glob(s.memoryPath("*"))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
