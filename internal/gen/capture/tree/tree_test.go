package tree_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/capture/tree"
)

func build(t testing.TB, entries ...tree.Entry) *tree.Tree {
	t.Helper()
	x := &tree.Tree{}
	for _, e := range entries {
		if err := x.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func small(t testing.TB) *tree.Tree {
	return build(t,
		tree.Entry{Path: "sys/class/net/lo", Kind: tree.Link, Target: "../../devices/virtual/net/lo"},
		tree.Entry{Path: "sys/devices/virtual/net/lo/mtu", Data: "65536\n"},
		tree.Entry{Path: "sys/devices/virtual/net/lo/subsystem", Kind: tree.Link, Target: "../../../../class/net"},
		tree.Entry{Path: "sys/devices/virtual/net/lo/speed", Kind: tree.Broken, Errno: syscall.EINVAL},
		tree.Entry{Path: "sys/devices/virtual/net/lo/empty"},
		tree.Entry{Path: "sys/devices/virtual/net/lo/blank", Data: "\n"},
		tree.Entry{Path: "sys/devices/virtual/net/lo/raw", Data: "no newline"},
		tree.Entry{Path: "sys/class/infiniband", Kind: tree.Dir},
	)
}

const smallArchive = `A small host.

-- sys/class/infiniband/ --
-- sys/class/net/lo -> ../../devices/virtual/net/lo --
-- sys/devices/virtual/net/lo/blank --

-- sys/devices/virtual/net/lo/empty --
-- sys/devices/virtual/net/lo/mtu --
65536
-- sys/devices/virtual/net/lo/raw !noeol --
no newline
-- sys/devices/virtual/net/lo/speed !EINVAL --
-- sys/devices/virtual/net/lo/subsystem -> ../../../../class/net --
`

func TestArchive(t *testing.T) {
	got, err := tree.Format("A small host.\n", small(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallArchive, string(got)); diff != "" {
		t.Errorf("archive differs (-want +got):\n%s", diff)
	}
	description, back, err := tree.Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if description != "A small host." {
		t.Errorf("description = %q", description)
	}
	if diff := cmp.Diff(small(t).Entries(), back.Entries()); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

func TestFormatRefuses(t *testing.T) {
	for name, e := range map[string]tree.Entry{
		"NUL byte":        {Path: "sys/a", Data: "a\x00b\n"},
		"header line":     {Path: "sys/a", Data: "one\n-- two --\n"},
		"carriage return": {Path: "sys/a", Data: "one\r\n"},
		"mark in name":    {Path: "sys/a !b", Data: "one\n"},
		"arrow in name":   {Path: "sys/a -> b", Data: "one\n"},
	} {
		if _, err := tree.Format("", build(t, e)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, e := range map[string]tree.Entry{
		"absolute path":  {Path: "/sys/a"},
		"path with dots": {Path: "sys/../a"},
		"empty path":     {},
		"no target":      {Path: "sys/a", Kind: tree.Link},
		"errno 0":        {Path: "sys/a", Kind: tree.Broken},
		"twice":          {Path: "sys/class/net/lo"},
		"below a file":   {Path: "sys/devices/virtual/net/lo/mtu/x"},
	} {
		if err := small(t).Write(e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestResolve(t *testing.T) {
	x := small(t)
	e, err := x.Resolve("sys/class/net/lo/subsystem/lo/mtu")
	if err != nil || e.Path != "sys/devices/virtual/net/lo/mtu" {
		t.Errorf("Resolve = %q, %v", e.Path, err)
	}
	for _, bad := range []tree.Entry{
		{Path: "sys/dangling", Kind: tree.Link, Target: "nothing"},
		{Path: "sys/loop", Kind: tree.Link, Target: "loop"},
		{Path: "sys/out", Kind: tree.Link, Target: "../../etc"},
		{Path: "sys/absolute", Kind: tree.Link, Target: "/sys/class"},
	} {
		if err := x.Write(bad); err != nil {
			t.Fatal(err)
		}
		if e, err := x.Resolve(bad.Path); err == nil {
			t.Errorf("Resolve(%q) = %q, want an error", bad.Path, e.Path)
		}
	}
}

func TestReadFile(t *testing.T) {
	x := small(t)
	if got, err := x.ReadFile("sys/class/net/lo/mtu"); got != "65536\n" || err != nil {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if _, err := x.ReadFile("sys/class/net/lo/speed"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ReadFile of a broken file gives %v, want EINVAL", err)
	}
	if _, err := x.ReadFile("sys/class/net"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("ReadFile of a directory gives %v, want EISDIR", err)
	}
}

func TestReplaceAndRemove(t *testing.T) {
	x := small(t)
	if err := x.Replace(tree.Entry{Path: "sys/devices/virtual", Data: "now a file\n"}); err != nil {
		t.Fatal(err)
	}
	for _, e := range x.Entries() {
		if strings.HasPrefix(e.Path, "sys/devices/virtual/") {
			t.Errorf("%s is left below a file", e.Path)
		}
	}
}

// TestDisk reads what a program would: content, errors of unreadable files, links.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	x := small(t)
	if err := x.Write(tree.Entry{Path: "sys/gone", Kind: tree.Broken, Errno: syscall.ENOENT}); err != nil {
		t.Fatal(err)
	}
	if err := x.CopyTo(tree.NewDisk(dir)); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "sys/class/net/lo/mtu")); string(data) != "65536\n" || err != nil {
		t.Errorf("mtu reads as %q, %v", data, err)
	}
	for name, want := range map[string]error{"sys/class/net/lo/speed": syscall.ELOOP, "sys/gone": os.ErrNotExist} {
		if _, err := os.ReadFile(filepath.Join(dir, name)); !errors.Is(err, want) {
			t.Errorf("%s gives %v, want %v", name, err, want)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s is not listed: %v", name, err)
		}
	}
	if err := x.CopyTo(tree.NewDisk(dir)); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second copy into the same directory gives %v, want ErrExist", err)
	}
}

// FuzzArchive: what is accepted is kept, whatever the archive.
func FuzzArchive(f *testing.F) {
	f.Add([]byte(smallArchive))
	f.Add([]byte("-- sys/a !noeol --\n\n-- sys/b/ --\n"))
	f.Add([]byte("text\n-- sys/a -> b -> c --\n"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		description, x, err := tree.Parse(archive)
		if err != nil {
			return
		}
		text, err := tree.Format(description, x)
		if err != nil {
			return
		}
		again, y, err := tree.Parse(text)
		if err != nil {
			t.Fatalf("parse what was formatted: %v\n%s", err, text)
		}
		if again != description {
			t.Errorf("description %q became %q", description, again)
		}
		if diff := cmp.Diff(x.Entries(), y.Entries()); diff != "" {
			t.Errorf("entries differ (-before +after):\n%s", diff)
		}
	})
}

func ExampleParse() {
	_, x, err := tree.Parse([]byte(smallArchive))
	if err != nil {
		fmt.Println(err)
		return
	}
	mtu, _ := x.ReadFile("sys/class/net/lo/mtu")
	_, err = x.ReadFile("sys/class/net/lo/speed")
	fmt.Print(mtu, err)
	// Output:
	// 65536
	// read sys/class/net/lo/speed: invalid argument
}
