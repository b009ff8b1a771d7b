package sysfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestEqualsDirFS: on every file of a machine, and on what is no file, the
// answers are those of os.DirFS, errors included.
func TestEqualsDirFS(t *testing.T) {
	dir := filepath.Join(rdmatest.Root(t, "misbehaving"), "sys")
	for size, name := range map[int]string{0: "empty", 4095: "page-1", 4096: "page", 4097: "page+1", 100000: "large"} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), size), 0o644))
	}
	names := []string{"absent", "../sys/empty", "/empty", "empty/x", "", ".", "class"}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ours, theirs := sysfs.DirFS(dir), os.DirFS(dir).(fs.ReadLinkFS)
	for _, name := range names {
		b1, err1 := fs.ReadFile(ours, name)
		b2, err2 := fs.ReadFile(theirs, name)
		compare(t, "read", name, string(b1), string(b2), err1, err2)
		l1, err1 := ours.ReadLink(name)
		l2, err2 := theirs.ReadLink(name)
		compare(t, "readlink", name, l1, l2, err1, err2)
		d1, err1 := fs.ReadDir(ours, name)
		d2, err2 := fs.ReadDir(theirs, name)
		compare(t, "list", name, fmt.Sprint(d1), fmt.Sprint(d2), err1, err2)
		s1, err1 := fs.Stat(ours, name)
		s2, err2 := fs.Stat(theirs, name)
		compare(t, "stat", name, fmt.Sprint(s1), fmt.Sprint(s2), err1, err2)
	}
}

func compare(t *testing.T, what, name, ours, theirs string, err1, err2 error) {
	t.Helper()
	var p1, p2 *fs.PathError
	switch {
	case (err1 == nil) != (err2 == nil) || err1 == nil && ours != theirs:
		t.Errorf("%s %q: %.80q, error %v; want %.80q, error %v", what, name, ours, err1, theirs, err2)
	case err1 == nil:
	case !errors.As(err1, &p1) || !errors.As(err2, &p2) || p1.Path != p2.Path || !sameCause(p1.Err, p2.Err):
		t.Errorf("%s %q: error %v; want %v", what, name, err1, err2)
	}
}

func sameCause(a, b error) bool {
	var e1, e2 syscall.Errno
	if errors.As(a, &e1) && errors.As(b, &e2) {
		return e1 == e2
	}
	return errors.Is(a, fs.ErrInvalid) && b != nil
}

func ExampleDirFS() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "state"), []byte("4: ACTIVE\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	b, err := sysfs.DirFS(dir).ReadFile("state")
	fmt.Printf("%q %v\n", b, err)
	// Output: "4: ACTIVE\n" <nil>
}

func BenchmarkReadFile(b *testing.B) {
	dir := b.TempDir()
	must.NoError(b, os.WriteFile(filepath.Join(dir, "state"), []byte("4: ACTIVE\n"), 0o644))
	for name, sys := range map[string]fs.FS{"os": os.DirFS(dir), "sysfs": sysfs.DirFS(dir)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := fs.ReadFile(sys, "state"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
