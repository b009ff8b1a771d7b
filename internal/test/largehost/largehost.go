// Package largehost has hosts of up to a thousand HCAs in memory, for tests of what one event costs. It counts the reads
// of their sysfs: times differ between machines, counts do not.
package largehost

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Host is the sysfs of a host. Its last HCA has a link that a test can fail.
type Host struct {
	fs.ReadLinkFS
	// Reads counts the operations on files.
	Reads atomic.Int64
	// Down says that the link of the last HCA is down.
	Down atomic.Bool
	// Last is the last HCA.
	Last rdma.HCA
}

// New returns a host with so many HCAs.
func New(t testing.TB, functions int) *Host {
	t.Helper()
	m, err := fixture.Large(functions)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{ReadLinkFS: m.FS(t)}
	snap, err := rdma.Discover(h)
	if err != nil {
		t.Fatal(err)
	}
	h.Last = snap.HCAs[functions-1]
	h.Reads.Store(0)
	return h
}

// ReadFile implements fs.ReadFileFS.
func (h *Host) ReadFile(name string) ([]byte, error) {
	h.Reads.Add(1)
	if h.Down.Load() && strings.Contains(name, "/"+h.Last.IBDev+"/ports/1/") && path.Base(name) == "state" {
		return []byte("1: DOWN\n"), nil
	}
	return fs.ReadFile(h.ReadLinkFS, name)
}

// ReadDir implements fs.ReadDirFS.
func (h *Host) ReadDir(name string) ([]fs.DirEntry, error) {
	h.Reads.Add(1)
	return fs.ReadDir(h.ReadLinkFS, name)
}

// Stat implements fs.StatFS.
func (h *Host) Stat(name string) (fs.FileInfo, error) {
	h.Reads.Add(1)
	return fs.Stat(h.ReadLinkFS, name)
}

// ReadLink implements fs.ReadLinkFS.
func (h *Host) ReadLink(name string) (string, error) {
	h.Reads.Add(1)
	return h.ReadLinkFS.ReadLink(name)
}

// Open is what the functions of package fs fall back to.
func (h *Host) Open(string) (fs.File, error) { return nil, errors.ErrUnsupported }
