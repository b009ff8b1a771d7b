// Package largehost has hosts of up to a thousand HCAs in memory, for tests of what one event costs. What is asked of
// their sysfs is counted (package counted).
package largehost

import (
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Host is the sysfs of a host. Its last HCA has a link that a test can fail.
type Host struct {
	*counted.FS
	// Down says that the link of the last HCA is down.
	Down atomic.Bool
	// Last is the last HCA.
	Last rdma.HCA
}

// New returns a host with so many HCAs. Nothing is counted yet.
func New(t testing.TB, functions int) *Host {
	t.Helper()
	m, err := fixture.Large(functions)
	must.NoError(t, err)
	sys := m.FS(t)
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	return &Host{FS: counted.New(sys), Last: snap.HCAs[functions-1]}
}

// ReadFile implements fs.ReadFileFS.
func (h *Host) ReadFile(name string) ([]byte, error) {
	content, err := h.FS.ReadFile(name)
	if h.Down.Load() && strings.Contains(name, "/"+h.Last.IBDev+"/ports/1/") && path.Base(name) == "state" {
		return []byte("1: DOWN\n"), nil
	}
	return content, err
}
