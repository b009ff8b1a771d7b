package userspace

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestTrees keeps hosts as archives, for tests of programs that use this
// package (cmd/cdi-gen). -update rewrites them.
func TestTrees(t *testing.T) {
	trees := map[string]*host{}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		libdir := "usr/lib/" + rdmacore.Layouts[machine].Triplet
		trees["host-"+arch] = newHost(host{machine: machine, libdir: libdir, abi: "34", glibc: "GLIBC_2.34"})
	}
	for name, h := range trees {
		file := filepath.Join("testdata", "trees", name+".tar")
		got := h.archive(t)
		if *golden.Update {
			must.NoError(t, os.WriteFile(file, got, 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what this package makes (%v); -update rewrites it", file, err)
		}
	}
}

// archive writes the files by name.
func (h *host) archive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		f := h.files[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Data))}
		if f.Mode&fs.ModeSymlink != 0 {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, string(f.Data), 0
		}
		must.NoError(t, w.WriteHeader(header))
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write(f.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	must.NoError(t, w.Close())
	return b.Bytes()
}
