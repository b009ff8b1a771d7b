package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
)

// The directories that runtimes read. Of two specs with one device name the one
// in the later directory wins.
const (
	StaticDir  = "/etc/cdi"     // survives a reboot
	DynamicDir = "/var/run/cdi" // does not
)

// Everyone can read a spec and list its directory: rootless podman runs as a user.
const (
	SpecMode = 0o644
	dirMode  = 0o755
)

// SpecName is the base name of the file of a kind: rdma.dev-hca. An id other
// than "" makes the name of one object's spec: rdma.dev-claim_<id>.
func SpecName(kind, id string) string {
	name := strings.ReplaceAll(kind, "/", "-")
	if id != "" {
		name += "_" + id
	}
	return name
}

// Store is a directory of CDI specs. It touches only the files it is asked for, and of these, with
// a Kind, only specs of it.
type Store struct {
	// Dir is the directory; Write makes it if it is missing.
	Dir string
	// Sync makes a write durable before it returns. A directory on a tmpfs, as
	// /var/run/cdi is, does not need it.
	Sync bool
	// Kind is that of the specs in files whose names people choose: another file there is a
	// [*ForeignError]. Without it the name alone says that a file is ours, as with the UID of a claim.
	Kind string
}

// Path is where the spec of that base name stands.
func (s Store) Path(base string, format Format) string {
	return filepath.Join(s.Dir, base+"."+string(format))
}

// Write puts a spec under a base name. It reports whether the file changed: an
// equal file is not written again, because every runtime on the host reads all
// specs anew after each write. The twin in the other format is removed, as a
// runtime refuses devices that two files of one directory define; a twin that is foreign
// defines none of them, and stays. Of two writers at once the last one wins.
func (s Store) Write(base string, spec *specs.Spec, format Format) (bool, error) {
	data, err := Encode(spec, format)
	if err != nil {
		return false, err
	}
	changed, made := false, false
	for {
		opt := atomicfile.Options{Mode: SpecMode, Sync: s.Sync, Check: s.check()}
		wrote, err := atomicfile.Write(s.Path(base, format), data, opt)
		if errors.Is(err, fs.ErrNotExist) && !made {
			if err := makeDir(s.Dir); err != nil {
				return false, fmt.Errorf("make CDI directory: %w", err)
			}
			made = true
			continue
		}
		changed = changed || wrote
		if err != nil {
			return changed, fmt.Errorf("store CDI spec: %w", err)
		}
		removed, err := s.remove(base, Twin(format))
		changed = changed || removed
		if err != nil || !removed || exists(s.Path(base, format)) {
			return changed, err
		}
		// A writer of the twin has taken ours away, as we have just taken its: with
		// both gone, the host would have no devices.
	}
}

// Twin is the other format, in which a spec must not stand beside this one.
func Twin(format Format) Format {
	if format == JSON {
		return YAML
	}
	return JSON
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// makeDir makes a directory that everyone can read, whatever the umask: rootless
// podman runs as a user. One that is there stays as it is.
func makeDir(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, dirMode)
}

// check is what has to hold of a file that is replaced or removed, nil for nothing.
func (s Store) check() atomicfile.Check {
	if s.Kind == "" {
		return nil
	}
	return s.isOurs
}

// Remove removes the spec of a base name in both formats, and reports whether
// there was one. Foreign files stay, and are no error.
func (s Store) Remove(base string) (bool, error) {
	j, errJ := s.remove(base, JSON)
	y, errY := s.remove(base, YAML)
	return j || y, errors.Join(errJ, errY)
}

func (s Store) remove(base string, format Format) (bool, error) {
	path := s.Path(base, format)
	if check := s.check(); check != nil {
		removed, err := atomicfile.Remove(path, check)
		if _, foreign := errors.AsType[*ForeignError](err); foreign {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("remove CDI spec: %w", err)
		}
		return removed, nil
	}
	err := syscall.Unlink(path) // os.Remove would try for a directory too
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case !exists(path):
		return false, nil // a read-only file system refuses to remove what is not there
	}
	return false, fmt.Errorf("remove CDI spec: %w", &fs.PathError{Op: "remove", Path: path, Err: err})
}

// IDs lists the ids of the specs of a kind in the directory, with the names that
// SpecName gives, sorted. A missing directory has none.
func (s Store) IDs(kind string) ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list CDI specs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.Type().IsRegular() || ext != "."+string(JSON) && ext != "."+string(YAML) {
			continue
		}
		base := strings.TrimSuffix(e.Name(), ext)
		if id, ok := strings.CutPrefix(base, SpecName(kind, "")+"_"); ok && id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
