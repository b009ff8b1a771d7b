package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// unpack unpacks a tree of internal/gen/userspace, for this machine.
func unpack(t *testing.T, name, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "gen", "userspace", "testdata", "trees",
		name+"-"+runtime.GOARCH+".tar"))
	for r := tar.NewReader(bytes.NewReader(data)); err == nil; {
		var h *tar.Header
		if h, err = r.Next(); err != nil {
			break
		}
		file := filepath.Join(dir, h.Name)
		err = os.MkdirAll(filepath.Dir(file), 0o755)
		if h.Typeflag == tar.TypeSymlink {
			err = errors.Join(err, os.Symlink(h.Linkname, file))
			continue
		}
		var content []byte
		content, err = io.ReadAll(r)
		put(t, file, string(content), 0o644)
	}
	if err != io.EOF {
		t.Fatal(err)
	}
}
