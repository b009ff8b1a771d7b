package rdmamap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	upstream "github.com/Mellanox/rdmamap"
	"github.com/shoenig/test/must"
)

// TestPanicIsAnError makes the library panic the way it does on an empty sysfs file, and calls it again afterwards.
func TestPanicIsAnError(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(root, "sys"), 0o755))
	m, err := Open(root)
	must.NoError(t, err)
	empty := []byte{}
	if _, err := m.call(func() []string { return []string{string(empty[:len(empty)-1])} }); err == nil ||
		!strings.Contains(err.Error(), "panicked") {
		t.Errorf("call gives %v, want an error that speaks of the panic", err)
	}
	if _, err := m.call(upstream.GetRdmaDeviceList); err != nil {
		t.Errorf("the next call gives %v: the lock is not released", err)
	}
}
