package main

import (
	"archive/tar"
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

// Side files of a tar, which say what a tar of sysfs cannot.
const (
	unreadableFile = "unreadable.txt"     // lines "/sys/PATH: message", for the files whose read failed
	devicesFile    = "dev-infiniband.txt" // a line "netns shared" or "netns exclusive", from "rdma system"
)

// importReport reads a report: a compressed tar with the directory cdi-gen-report. It returns the description of the
// machine, and its tree.
func importReport(r io.Reader) (string, *tree.Tree, error) {
	zipped, err := gzip.NewReader(r)
	if err != nil {
		return "", nil, fmt.Errorf("import report: %w", err)
	}
	for tr := tar.NewReader(zipped); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("it has no %s", capture.MachineFile)
		}
		if err != nil {
			return "", nil, fmt.Errorf("import report: %w", err)
		}
		if path.Base(h.Name) != capture.MachineFile {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(tr, maxMachine+1))
		if err == nil && len(data) > maxMachine {
			err = fmt.Errorf("%s is larger than %d MiB", capture.MachineFile, maxMachine>>20)
		}
		if err != nil {
			return "", nil, fmt.Errorf("import report: %w", err)
		}
		return tree.Parse(data)
	}
}

// maxMachine bounds the size of a machine. A report comes from a stranger.
const maxMachine = 64 << 20

// importTar reads a tar of a sysfs: sys/..., and beside it the side files.
func importTar(r io.Reader) (*tree.Tree, error) {
	t := &tree.Tree{}
	side := make(map[string]string)
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("import tar: %w", err)
		}
		if err := importEntry(t, side, h, tr); err != nil {
			return nil, fmt.Errorf("import tar: %w", err)
		}
	}
	if err := importUnreadable(t, side[unreadableFile]); err != nil {
		return nil, fmt.Errorf("import %s: %w", unreadableFile, err)
	}
	if err := importMode(t, side[devicesFile]); err != nil {
		return nil, fmt.Errorf("import %s: %w", devicesFile, err)
	}
	if err := capture.Complete(t); err != nil {
		return nil, fmt.Errorf("import tar: %w", err)
	}
	return t, nil
}

func importEntry(t *tree.Tree, side map[string]string, h *tar.Header, r io.Reader) error {
	name := path.Clean(strings.TrimPrefix(h.Name, "/"))
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

// importMode writes the parameter of ib_core that the tar may lack.
func importMode(t *tree.Tree, list string) error {
	const name = "sys/module/ib_core/parameters/netns_mode"
	if _, ok := t.Lookup(name); ok {
		return nil
	}
	for line := range strings.Lines(list) {
		switch {
		case strings.HasPrefix(line, "netns shared"):
			return t.Write(tree.Entry{Path: name, Data: "Y\n"})
		case strings.HasPrefix(line, "netns exclusive"):
			return t.Write(tree.Entry{Path: name, Data: "N\n"})
		}
	}
	return nil
}
