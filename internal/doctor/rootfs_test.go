package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// links is a tree as distributions have it, with traps.
var links = fstest.MapFS{
	"run/cdi/a.json":   {Data: []byte("a")},
	"var/run":          {Data: []byte("/run"), Mode: fs.ModeSymlink},
	"srv/run":          {Data: []byte("../../../run"), Mode: fs.ModeSymlink},
	"etc/cdi/b.json":   {Data: []byte("../../var/run/cdi/a.json"), Mode: fs.ModeSymlink},
	"etc/cdi/self":     {Data: []byte("self"), Mode: fs.ModeSymlink},
	"etc/cdi/gone":     {Data: []byte("/nowhere"), Mode: fs.ModeSymlink},
	"etc/cdi/file.txt": {Data: []byte("b")},
}

// Links lead where they lead on the host, and never above its root.
func TestRootFS(t *testing.T) {
	r := rootFS{links}
	for name, real := range map[string]string{
		"/var/run/cdi/a.json": "/run/cdi/a.json",
		"/srv/run/cdi/a.json": "/run/cdi/a.json",
		"/etc/cdi/b.json":     "/run/cdi/a.json",
		"//run/cdi/./a.json":  "/run/cdi/a.json",
		"/":                   "/",
	} {
		got, err := r.realPath(name)
		if err != nil || got != real {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, real)
		}
	}
	if data, err := r.ReadFile("/etc/cdi/b.json"); err != nil || string(data) != "a" {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := r.Lstat("/etc/cdi/b.json"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("a link is not seen as such: %v, %v", info, err)
	}
	if entries, err := r.ReadDir("/var/run/cdi"); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

// Errors name the path on the host.
func TestRootFSErrors(t *testing.T) {
	r := rootFS{links}
	for name, want := range map[string]error{
		"/etc/cdi/self":       syscall.ELOOP,
		"/etc/cdi/gone":       fs.ErrNotExist,
		"/etc/cdi/none":       fs.ErrNotExist,
		"/etc/cdi/file.txt/x": syscall.ENOTDIR,
	} {
		_, err := r.ReadFile(name)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if _, err := r.Stat(name); !errors.Is(err, want) {
			t.Errorf("stat %s: got %v, want %v", name, err, want)
		}
	}
	if _, err := r.ReadDir("/etc/cdi/file.txt"); err == nil {
		t.Error("a file was listed")
	}
}
