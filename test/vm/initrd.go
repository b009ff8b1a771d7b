package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/checkout"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/image"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/initramfs"
)

// makeInitrd packs process 1, compiled from this checkout, and the early modules. It is
// not part of the image, so that a change to process 1 costs a second and not minutes.
func makeInitrd(ctx context.Context, cache string, img *image.Image) (string, error) {
	init, err := compileInit(ctx)
	if err != nil {
		return "", err
	}
	entries := []initramfs.Entry{
		initramfs.Dir("dev"), initramfs.Dir("proc"), initramfs.Dir("sys"), initramfs.Dir("newroot"), initramfs.Dir("modules"),
		initramfs.File("init", init),
	}
	modules, err := os.ReadDir(img.EarlyModules())
	if err != nil {
		return "", fmt.Errorf("list the early modules: %w", err)
	}
	for _, m := range modules {
		data, err := os.ReadFile(filepath.Join(img.EarlyModules(), m.Name()))
		if err != nil {
			return "", fmt.Errorf("read an early module: %w", err)
		}
		entries = append(entries, initramfs.File("modules/"+m.Name(), data))
	}
	var archive bytes.Buffer
	if err := initramfs.Write(&archive, entries...); err != nil {
		return "", err
	}
	return keep(filepath.Join(cache, "vm-initrd"), archive.Bytes())
}

// compileInit compiles cmd/init without C, since there is no C library where it starts.
func compileInit(ctx context.Context) ([]byte, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vm-init-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "init")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./cmd/init")
	cmd.Dir = filepath.Join(root, "test", "vm")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the guest's process 1: %w\n%s", err, out)
	}
	return os.ReadFile(program)
}

// keep writes data into a directory of the cache under the name of its hash, unless it
// is there, and removes files that nobody has used for a while.
func keep(dir string, data []byte) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("%x.cpio", sha256.Sum256(data))[:21])
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// A QEMU that is about to start may still want the last one.
	if err := prune(dir, 3); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("write the initramfs: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return path, os.Rename(f.Name(), path)
}

// prune makes the directory and leaves the newest files in it.
func prune(dir string, leave int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the cache: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for len(entries) > leave {
		oldest := 0
		for i := range entries {
			if older(entries[i], entries[oldest]) {
				oldest = i
			}
		}
		if err := os.Remove(filepath.Join(dir, entries[oldest].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries = append(entries[:oldest], entries[oldest+1:]...)
	}
	return nil
}

func older(a, b fs.DirEntry) bool {
	x, errX := a.Info()
	y, errY := b.Info()
	return errX == nil && errY == nil && x.ModTime().Before(y.ModTime())
}
