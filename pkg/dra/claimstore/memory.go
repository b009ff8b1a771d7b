package claimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
)

// memoryVersion is the version of the files that Remember writes.
const memoryVersion = 1

// memory is the content of such a file.
type memory struct {
	Version int             `json:"version"`
	BootID  string          `json:"bootID"`
	Value   json.RawMessage `json:"value"`
}

// Remember keeps a value under a name for a driver that starts later in this boot. A
// driver must also work without the value.
func (s *Store) Remember(name string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		data, err = json.Marshal(memory{memoryVersion, s.boot.ID, data})
	}
	if err == nil {
		_, err = atomicfile.Write(s.memoryPath(name), data, atomicfile.Options{Mode: 0o640})
	}
	if err != nil {
		return fmt.Errorf("remember %s: %w", name, err)
	}
	return nil
}

// Recall reads a value that Remember has kept. It reports whether there is one of this boot, in a
// format that this version knows.
func (s *Store) Recall(name string, value any) (bool, error) {
	path := s.memoryPath(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && (m.Version != memoryVersion || m.BootID != s.boot.ID) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(m.Value, value)
	}
	if err != nil {
		return false, fmt.Errorf("recall %s from %q: %w", name, path, err)
	}
	return true, nil
}

func (s *Store) memoryPath(name string) string { return filepath.Join(s.dir, name+".json") }
