package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// What is no regular file, or larger than it can be, is refused at once: a FIFO has no writer
// here, and the sparse file would be 1 TiB in memory.
func TestReadFileRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(string) error{
		"fifo":      func(p string) error { return unix.Mkfifo(p, 0o644) },
		"directory": func(p string) error { return os.Mkdir(p, 0o755) },
		"large":     func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 1<<40)) },
		"link":      func(p string) error { return os.Symlink("/fifo", p) },
		"full":      func(p string) error { return os.WriteFile(p, []byte("12345678"), 0o644) },
	} {
		must.NoError(t, make(filepath.Join(dir, name)))
	}
	for name, want := range map[string]error{
		"fifo": ErrNotRegular, "directory": ErrNotRegular, "link": ErrNotRegular, "large": ErrTooLarge, "full": nil,
		"none": os.ErrNotExist,
	} {
		if _, err := ReadFile(DirFS(dir), "/"+name, 8); !errors.Is(err, want) {
			t.Errorf("%s: ReadFile says %v, want %v", name, err, want)
		}
		if name == "link" {
			continue // leads to the root of this system there
		}
		if _, err := ReadLocal(filepath.Join(dir, name), 8); !errors.Is(err, want) {
			t.Errorf("%s: ReadLocal says %v, want %v", name, err, want)
		}
	}
	if _, err := ReadFile(DirFS(dir), "full", 7); !errors.Is(err, ErrTooLarge) {
		t.Errorf("8 bytes where 7 may be: %v", err)
	}
	// The size of such a file says nothing.
	if data, err := ReadLocal("/proc/self/status", 1<<20); err != nil || len(data) == 0 {
		t.Errorf("/proc/self/status: %d bytes, %v", len(data), err)
	}
	if _, err := ReadLocal("/proc/self/status", 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("/proc/self/status in 10 bytes: %v", err)
	}
}

// A directory that a user changes between the look at a path and the opening of its file leads
// nowhere else.
func TestOpenStaysInside(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "abs")),
		os.Symlink("../../../../../../etc", filepath.Join(dir, "up"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"abs/hostname", "up/hostname", "abs/passwd", "up/passwd"} {
		if f, err := DirFS(dir).Open(name); err == nil {
			f.Close()
			t.Errorf("%s was opened outside of the directory", name)
		}
	}
}

// A directory is listed up to the limit. EachLocal has no limit, and ends with the caller's error.
func TestLargeDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"c", "a", "b"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	entries, err := ReadDir(DirFS(dir), "/", 3)
	if err != nil || len(entries) != 3 || entries[0].Name() != "a" || entries[2].Name() != "c" {
		t.Errorf("entries %v, %v", entries, err)
	}
	if _, err := ReadDir(DirFS(dir), "/", 2); !errors.Is(err, ErrTooMany) {
		t.Errorf("3 entries where 2 may be: %v", err)
	}
	visited := 0
	visit := func(os.DirEntry) error { visited++; return nil }
	if err := EachLocal(dir, visit); err != nil || visited != 3 {
		t.Errorf("%d entries visited, %v", visited, err)
	}
	stop := errors.New("stop")
	if err := EachLocal(dir, func(os.DirEntry) error { return stop }); err != stop {
		t.Errorf("error %v, want that of the caller", err)
	}
	fifo := filepath.Join(dir, "fifo")
	must.NoError(t, unix.Mkfifo(fifo, 0o644))
	test.ErrorIs(t, EachLocal(fifo, visit), unix.ENOTDIR, test.Sprint("a FIFO"))
	if _, err := ReadDir(DirFS(dir), "/fifo", 9); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a FIFO: %v", err)
	}
}
