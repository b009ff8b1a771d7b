package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// unreadableFile is the file of a tar that says what a tar cannot: lines "/sys/PATH: message", for the files whose read
// failed.
const unreadableFile = "unreadable.txt"

// maxArchive bounds what an archive unpacks to. It comes from a stranger. A report of 1,016 HCAs has 83 MiB.
const maxArchive = 256 << 20

// importTar reads a tar of a sysfs: sys/..., and beside it unreadable.txt, and the description in README. A report
// (cdi-gen report) is one, compressed.
func importTar(r io.Reader) (description string, t *tree.Tree, err error) {
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		if r, err = gzip.NewReader(buffered); err != nil {
			return "", nil, fmt.Errorf("import tar: %w", err)
		}
	}
	t = &tree.Tree{}
	side := make(map[string]string)
	limited := &io.LimitedReader{R: r, N: maxArchive}
	for tr := tar.NewReader(limited); ; {
		h, err := tr.Next()
		if err == nil {
			err = importEntry(t, side, h, tr)
		}
		if limited.N == 0 {
			err = fmt.Errorf("it is larger than %d MiB", maxArchive>>20)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, fmt.Errorf("import tar: %w", err)
		}
	}
	if err := importUnreadable(t, side[unreadableFile]); err != nil {
		return "", nil, fmt.Errorf("import %s: %w", unreadableFile, err)
	}
	if err := capture.Complete(t); err != nil {
		return "", nil, fmt.Errorf("import tar: %w", err)
	}
	return side["README"], t, nil
}

func importEntry(t *tree.Tree, side map[string]string, h *tar.Header, r io.Reader) error {
	name := strings.TrimPrefix(path.Clean(strings.TrimPrefix(h.Name, "/")), "cdi-gen-report/")
	inSys := strings.HasPrefix(name, "sys/") && capture.Keeps(path.Dir(name)) && capture.Keeps(name)
	switch h.Typeflag {
	case tar.TypeDir:
		if inSys {
			return t.Write(tree.Entry{Path: name, Kind: tree.Dir})
		}
	case tar.TypeSymlink:
		if inSys {
			return t.Write(tree.Entry{Path: name, Kind: tree.Link, Target: h.Linkname})
		}
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("read %q: %w", name, err)
		}
		if path.Base(name) == "vpd" {
			v := rdma.ParseVPD(data)
			data = []byte(tree.VPD(v.Card, v.Purpose))
		}
		if inSys {
			return t.Write(tree.Entry{Path: name, Kind: tree.File, Data: string(data)})
		}
		side[name] = string(data)
	}
	return nil
}

func importUnreadable(t *tree.Tree, list string) error {
	for line := range strings.Lines(list) {
		name, message, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		errno, ok := errnoOf(message)
		if !ok {
			return fmt.Errorf("read line %q: unknown error message", line)
		}
		if err := t.Replace(tree.Entry{Path: strings.TrimPrefix(name, "/"), Kind: tree.Broken, Errno: errno}); err != nil {
			return err
		}
	}
	return nil
}

// errnoOf finds an errno by the message that programs print for it.
func errnoOf(message string) (syscall.Errno, bool) {
	for _, errno := range tree.Errnos() {
		if strings.EqualFold(errno.Error(), message) {
			return errno, true
		}
	}
	return 0, false
}
