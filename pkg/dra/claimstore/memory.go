package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// maxState bounds what is read of a file of the store; plan.MaxRecord bounds what is written.
const maxState = 16 << 20

// memoryVersion is the version of the files that Remember writes.
const memoryVersion = 1

// remembered is the content of such a file.
type remembered struct {
	Version int             `json:"version"`
	BootID  string          `json:"bootID"`
	Value   json.RawMessage `json:"value"`
}

// Memory keeps values for a driver that starts later in this boot. A driver must also work without them.
type Memory struct{ dir, bootID string }

// Memory returns the values that drivers of this boot have left.
func (s *Store) Memory() Memory { return Memory{s.dir, s.boot.ID} }

// Remember keeps a value under a name.
func (m Memory) Remember(name string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		data, err = json.Marshal(remembered{memoryVersion, m.bootID, data})
	}
	if err == nil {
		_, err = atomicfile.Write(m.path(name), data, atomicfile.Options{Mode: 0o640})
	}
	if err != nil {
		return fmt.Errorf("remember %s: %w", name, err)
	}
	return nil
}

// Recall reads a value that Remember has kept. It reports whether there is one of this boot, in a
// format that this version knows.
func (m Memory) Recall(name string, value any) (bool, error) {
	path := m.path(name)
	data, err := hostfs.ReadLocal(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var was remembered
	if err == nil {
		err = json.Unmarshal(data, &was)
	}
	if err == nil && (was.Version != memoryVersion || was.BootID != m.bootID) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(was.Value, value)
	}
	if err != nil {
		return false, fmt.Errorf("recall %s from %q: %w", name, path, err)
	}
	return true, nil
}

func (m Memory) path(name string) string { return filepath.Join(m.dir, name+".json") }
