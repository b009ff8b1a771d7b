// Package atomicfile replaces whole files: a reader sees the old content or the new one, never a part, even if the
// writer dies.
//
// A file has its final mode before it gets its name. Otherwise a rootless podman could find a CDI spec that it cannot
// read, and could then resolve no device of the spec. The package does not touch a file that already has the wanted
// content and mode, so that programs that watch the directory are not woken without need.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// tempPrefix and tempSuffix are the beginning and the end of the names of temporary files. CDI implementations ignore
// these files, because they read only *.json and *.yaml.
const (
	tempPrefix = ".rdma.dev-"
	tempSuffix = ".tmp"
)

// Options say how Write writes a file.
type Options struct {
	// Mode is the permission of the file.
	Mode fs.FileMode
	// Sync makes the content and the name durable before Write returns. It costs two fsyncs, and has no use on a
	// tmpfs such as /run.
	Sync bool
	// Existing replaces only an existing file: without one, the error is fs.ErrNotExist. The file system must
	// support RENAME_EXCHANGE, as tmpfs, ext4, xfs and btrfs do.
	Existing bool
	// Own replaces also a file with equal content and mode that belongs to another user.
	Own bool
	// Owner, if set, is the owner of the file. Only root may give a file to another user.
	Owner *Owner
	// Check, if set, must allow the replacement of the present file. If it returns an error, Write keeps that file.
	Check Check
}

// Owner is a user and a group.
type Owner struct{ UID, GID int }

// Write replaces the file at path with data. It is idempotent, and reports whether it wrote: it does not touch a file
// with equal content and mode. After an error the old file is unchanged, and no temporary file remains.
func Write(path string, data []byte, opt Options) (bool, error) {
	if opt.same(path, data) {
		return false, nil
	}
	dir := filepath.Dir(path)
	tmp, err := createTemp(dir)
	if err != nil {
		return false, fmt.Errorf("write %q: %w", path, err)
	}
	err = fill(tmp, data, opt)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = opt.rename(tmp.Name(), path)
		if err != nil && opt.Check != nil && opt.Check(tmp.Name()) != nil {
			return false, fmt.Errorf("write %q: %w", path, err) // tmp is now another writer's file: keep it
		}
	}
	if err != nil {
		return false, fmt.Errorf("write %q: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	if opt.Sync {
		if err := syncDir(dir); err != nil {
			return true, fmt.Errorf("write %q: %w", path, err)
		}
	}
	return true, nil
}

// OpenFile is os.OpenFile for regular files and directories. os.OpenFile registers each file with the runtime's poller,
// which supports neither. That takes five system calls, as many as writing a small file.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := loop.Uninterrupted(func() (int, error) {
		return syscall.Open(path, flag|syscall.O_CLOEXEC, uint32(perm.Perm()))
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func createTemp(dir string) (*os.File, error) {
	for {
		f, err := OpenFile(filepath.Join(dir, tempName()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// rename is os.Rename without its check of the target.
func (o Options) rename(from, to string) error {
	switch {
	case o.Check != nil:
		return o.Check.replace(from, to)
	case !o.Existing:
		return renameat2(from, to, 0)
	}
	err := renameat2(from, to, unix.RENAME_EXCHANGE)
	if err == nil {
		_ = os.Remove(from) // the old file; if this fails, Sweep removes it
	}
	return err
}

func fill(f *os.File, data []byte, opt Options) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if opt.Owner != nil {
		if err := f.Chown(opt.Owner.UID, opt.Owner.GID); err != nil {
			return err
		}
	}
	if err := f.Chmod(opt.Mode); err != nil {
		return err
	}
	if !opt.Sync {
		return nil
	}
	return f.Sync()
}

// same reports whether path is a regular file with this content and mode.
func (o Options) same(path string, data []byte) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != o.Mode || info.Size() != int64(len(data)) {
		return false
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); o.Own && (!ok || int(stat.Uid) != os.Geteuid()) {
		return false
	}
	return holds(path, data)
}

// holds reports whether a file has this content. Another program may have replaced the file since the check of its
// type, so the open neither waits for a FIFO nor follows a link.
func holds(path string, data []byte) bool {
	f, err := OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1))
	return err == nil && bytes.Equal(old, data)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Stale is the age from which a temporary file counts as left behind: nobody takes so long to write a small file.
const Stale = time.Minute

// Sweep removes temporary files that a killed writer left in dir, if they are older than age. It keeps younger files,
// because they may belong to a running writer.
func Sweep(dir string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sweep temporary files: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !strings.HasSuffix(e.Name(), tempSuffix) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep temporary files: %w", err))
		}
	}
	return errors.Join(errs...)
}
