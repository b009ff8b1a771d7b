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
	specMode = 0o644
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

// Store is a directory of CDI specs. It touches only the files it is asked for.
type Store struct {
	// Dir is the directory; Write makes it if it is missing.
	Dir string
	// Sync makes a write durable before it returns. A directory on a tmpfs, as
	// /var/run/cdi is, does not need it.
	Sync bool
}

// Path is where the spec of that base name stands.
func (s Store) Path(base string, format Format) string {
	return filepath.Join(s.Dir, base+"."+string(format))
}

// Write puts a spec under a base name. It reports whether the file changed: an
// equal file is not written again, because every runtime on the host reads all
// specs anew after each write. The twin in the other format is removed, as a
// runtime refuses devices that two files of one directory define.
func (s Store) Write(base string, spec *specs.Spec, format Format) (bool, error) {
	data, err := Encode(spec, format)
	if err != nil {
		return false, err
	}
	if err := makeDir(s.Dir); err != nil {
		return false, fmt.Errorf("make CDI directory: %w", err)
	}
	changed, err := atomicfile.Write(s.Path(base, format), data, atomicfile.Options{Mode: specMode, Sync: s.Sync})
	if err != nil {
		return changed, fmt.Errorf("store CDI spec: %w", err)
	}
	twin := JSON
	if format == JSON {
		twin = YAML
	}
	removed, err := s.remove(base, twin)
	return changed || removed, err
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

// Remove removes the spec of a base name in both formats, and reports whether
// there was one.
func (s Store) Remove(base string) (bool, error) {
	j, errJ := s.remove(base, JSON)
	y, errY := s.remove(base, YAML)
	return j || y, errors.Join(errJ, errY)
}

func (s Store) remove(base string, format Format) (bool, error) {
	path := s.Path(base, format)
	err := os.Remove(path)
	switch _, absent := os.Lstat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(absent, fs.ErrNotExist):
		return false, nil // a read-only file system refuses to remove what is not there
	}
	return false, fmt.Errorf("remove CDI spec: %w", err)
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
