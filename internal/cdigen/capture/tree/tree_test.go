package tree_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

func build(t testing.TB, entries ...tree.Entry) *tree.Tree {
	t.Helper()
	x := &tree.Tree{}
	for _, e := range entries {
		must.NoError(t, x.Write(e))
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
	must.NoError(t, err)
	test.Eq(t, smallArchive, string(got), test.Sprint("archive differs"))
	description, back, err := tree.Parse(got)
	must.NoError(t, err)
	test.Eq(t, "A small host.", description, test.Sprint("description"))
	test.Eq(t, small(t).Entries(), back.Entries(), test.Sprint("entries differ"))
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
		test.Error(t, small(t).Write(e), test.Sprintf("%s: accepted", name))
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
		must.NoError(t, x.Write(bad))
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
	must.NoError(t, x.Replace(tree.Entry{Path: "sys/devices/virtual", Data: "now a file\n"}))
	for _, e := range x.Entries() {
		test.False(t, strings.HasPrefix(e.Path, "sys/devices/virtual/"),
			test.Sprintf("%s is left below a file", e.Path))
	}
}

// TestDisk reads what a program would: content, errors of unreadable files, links.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	x := small(t)
	must.NoError(t, x.Write(tree.Entry{Path: "sys/gone", Kind: tree.Broken, Errno: syscall.ENOENT}))
	must.NoError(t, x.CopyTo(tree.NewDisk(dir)))
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
	test.ErrorIs(t, x.CopyTo(tree.NewDisk(dir)), os.ErrExist, test.Sprint("a second copy into the same directory"))
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
		must.NoError(t, err, must.Sprintf("parse what was formatted: %v\n%s", err, text))
		test.Eq(t, description, again, test.Sprint("description"))
		test.Eq(t, x.Entries(), y.Entries(), test.Sprint("entries differ"))
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
