package initramfs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/initramfs"
)

func Example() {
	entries := []initramfs.Entry{initramfs.Dir("dev"), initramfs.File("init", []byte("\x7fELF..."))}
	if err := initramfs.Write(os.Stdout, entries...); err != nil {
		panic(err)
	}
}

// An independent program reads what we wrote: names and contents of lengths that need
// every kind of padding.
func TestWrite(t *testing.T) {
	needs.Program(t, "busybox", "run hack/install-packages.sh vm")
	entries := []initramfs.Entry{initramfs.Dir("modules")}
	for i := range 5 {
		name := "modules/" + string(bytes.Repeat([]byte{'m'}, i+1))
		entries = append(entries, initramfs.File(name, bytes.Repeat([]byte{byte('0' + i)}, i)))
	}
	var archive bytes.Buffer
	must.NoError(t, initramfs.Write(&archive, entries...))
	dir := t.TempDir()
	cmd := exec.Command("busybox", "cpio", "-i", "-d")
	cmd.Dir, cmd.Stdin = dir, &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, e := range entries[1:] {
		path := filepath.Join(dir, e.Name)
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, e.Data) {
			t.Errorf("%s: %q, %v; want %q", e.Name, got, err, e.Data)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode %s", e.Name, info.Mode())
		}
	}
}
