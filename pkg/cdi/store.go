package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// The directories that runtimes read. If two specs have the same device name, the one
// in the later directory wins.
const (
	StaticDir  = "/etc/cdi"     // survives a reboot
	DynamicDir = "/var/run/cdi" // does not
)

// Everyone can read a spec and list its directory, because rootless podman runs as a user.
const (
	SpecMode = 0o644
	dirMode  = 0o755
)

// SpecName is the base name of a kind's file: rdma.dev-hca. With an id, it is the
// base name of one object's spec: rdma.dev-claim_<id>.
func SpecName(kind, id string) string {
	name := strings.ReplaceAll(kind, "/", "-")
	if id != "" {
		name += "_" + id
	}
	return name
}

// Store is a directory of CDI specs. It changes only the files that a caller names. With a Kind, it changes
// only specs of that kind.
type Store struct {
	// Dir is the directory; Write makes it if it is missing.
	Dir string
	// Sync makes a write durable before it returns. A directory on a tmpfs, such as
	// /var/run/cdi, does not need it.
	Sync bool
	// Kind is the kind of the specs in files with names that people choose. Any other file is a
	// [*ForeignError]. Without Kind, the name alone identifies our files, as with the UID of a claim.
	Kind string
}

// Path returns the path of the spec with that base name.
func (s Store) Path(base string, format Format) string {
	return filepath.Join(s.Dir, base+"."+string(format))
}

// Write stores a spec under a base name. It reports whether the file changed. It does not
// replace an equal file, because every runtime on the host reads all specs again after each
// write. It removes the file of the other format, because a runtime rejects devices that two files of
// one directory define. A foreign file in the other format defines none of them, and stays. If two
// writers write at the same time, the last one wins.
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
		// A concurrent writer of the other format has removed our file, and we have removed its file.
		// Write again, because without both the host would have no devices.
	}
}

// Twin returns the other format. A spec must not exist in both.
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

// makeDir makes a directory that everyone can read, whatever the umask. It does not
// change an existing one.
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

// check returns the condition for replacing or removing a file, nil for none.
func (s Store) check() atomicfile.Check {
	if s.Kind == "" {
		return nil
	}
	return func(path string) error {
		_, err := loadSpec(path, s.Kind)
		return err
	}
}

// Remove removes the spec with a base name in both formats, and reports whether
// there was one. It keeps foreign files without an error.
func (s Store) Remove(base string) (bool, error) {
	j, errJ := s.remove(base, JSON)
	y, errY := s.remove(base, YAML)
	return j || y, errors.Join(errJ, errY)
}

func (s Store) remove(base string, format Format) (bool, error) {
	removed, err := atomicfile.Remove(s.Path(base, format), s.check())
	if _, foreign := errors.AsType[*ForeignError](err); foreign {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("remove CDI spec: %w", err)
	}
	return removed, nil
}

// IDs lists the ids of the specs of a kind in the directory, sorted. A file's name has the
// form that SpecName returns. A missing directory has none.
func (s Store) IDs(kind string) ([]string, error) {
	var ids []string
	err := hostfs.EachLocal(s.Dir, func(e fs.DirEntry) error {
		ext := filepath.Ext(e.Name())
		if !e.Type().IsRegular() || ext != "."+string(JSON) && ext != "."+string(YAML) {
			return nil
		}
		base := strings.TrimSuffix(e.Name(), ext)
		if id, ok := strings.CutPrefix(base, SpecName(kind, "")+"_"); ok && id != "" {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list CDI specs: %w", err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
