package hostfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// links is a tree as distributions have it, with traps.
var links = fstest.MapFS{
	"run/cdi/a.json":    {Data: []byte("a")},
	"var/run":           {Data: []byte("/run"), Mode: fs.ModeSymlink},
	"srv/run":           {Data: []byte("../../../run"), Mode: fs.ModeSymlink},
	"etc/cdi/b.json":    {Data: []byte("../../var/run/cdi/a.json"), Mode: fs.ModeSymlink},
	"etc/cdi/self":      {Data: []byte("self"), Mode: fs.ModeSymlink},
	"etc/cdi/gone":      {Data: []byte("/nowhere/at/all"), Mode: fs.ModeSymlink},
	"etc/cdi/file.txt":  {Data: []byte("b")},
	"etc/cdi/directory": {Data: []byte("../cdi/"), Mode: fs.ModeSymlink},
	"etc/cdi/up":        {Data: []byte(".."), Mode: fs.ModeSymlink},
}

// Links lead where they lead on the host, and never above its root.
func TestResolve(t *testing.T) {
	for name, want := range map[string]string{
		"/var/run/cdi/a.json": "run/cdi/a.json",
		"var/run/cdi/a.json":  "run/cdi/a.json",
		"/srv/run/cdi/a.json": "run/cdi/a.json",
		"/etc/cdi/b.json":     "run/cdi/a.json",
		"//run/cdi/./a.json":  "run/cdi/a.json",
		"/etc/cdi/up/cdi/":    "etc/cdi",
		"/../..":              ".",
		"/":                   ".",
	} {
		if got, err := Resolve(links, name); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}

// Errors are those of the kernel, and name the path on the host. Where a file is missing, the
// result says where it would be made.
func TestResolveErrors(t *testing.T) {
	for name, want := range map[string]struct {
		err   error
		place string
	}{
		"/etc/cdi/self":        {syscall.ELOOP, ""},
		"/etc/cdi/gone/x":      {fs.ErrNotExist, "nowhere/at/all/x"},
		"/etc/cdi/none":        {fs.ErrNotExist, "etc/cdi/none"},
		"/var/run/x":           {fs.ErrNotExist, "run/x"},
		"/etc/cdi/file.txt/x":  {syscall.ENOTDIR, ""},
		"/etc/cdi/file.txt/":   {syscall.ENOTDIR, ""},
		"/etc/cdi/file.txt/..": {syscall.ENOTDIR, ""},
	} {
		got, err := Resolve(links, name)
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), path.Clean(name)) || got != want.place {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, want.place, want.err)
		}
		if _, err := Stat(links, name); !errors.Is(err, want.err) {
			t.Errorf("stat %s: got %v, want %v", name, err, want.err)
		}
	}
	if info, err := Lstat(links, "/var/run"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("a link is not seen as such: %v, %v", info, err)
	}
}

// Directories and files are read where links lead, and errors name the path on the host.
func TestRead(t *testing.T) {
	if data, err := ReadFile(links, "/etc/cdi/b.json", 1); err != nil || string(data) != "a" {
		t.Errorf("got %q, %v", data, err)
	}
	if entries, err := ReadDir(links, "/var/run/cdi", 1); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
	for name, want := range map[string]error{"/etc/cdi/self": syscall.ELOOP, "/etc/cdi/gone": fs.ErrNotExist} {
		_, err := ReadFile(links, name, 1)
		_, err2 := ReadDir(links, name, 1)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
	}
	if _, err := ReadDir(links, "/etc/cdi/file.txt", 1); err == nil {
		t.Error("a file was listed")
	}
}
