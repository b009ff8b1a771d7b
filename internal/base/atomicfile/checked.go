package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// Check returns whether a file may be replaced or removed: nil if it may, fs.ErrNotExist if there is no file. It is
// called twice. The first call checks the file under its name. The second call checks it under a temporary name of the
// same directory, where no other program can find it. So a file that another program writes between the two checks is
// restored. On a file system without renameat2, such as NFS, only the first check happens.
type Check func(path string) error

// replace renames the temporary file to its final name if check allows it. After an error the caller must remove the
// temporary file.
func (check Check) replace(tmp, path string) error {
	for {
		err := renameat2(tmp, path, unix.RENAME_NOREPLACE)
		if err == nil || !errors.Is(err, fs.ErrExist) && !unsupported(err) {
			return err
		}
		plain := unsupported(err)
		if err := check(path); errors.Is(err, fs.ErrNotExist) && !plain {
			continue
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !plain {
			err = renameat2(tmp, path, unix.RENAME_EXCHANGE)
			plain = unsupported(err)
		}
		if plain {
			return os.Rename(tmp, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := check(tmp); err != nil {
			return check.giveBack(tmp, path, err)
		}
		return os.Remove(tmp)
	}
}

// Remove removes the file at path if check allows it, and reports whether there was one. It is idempotent. A nil check
// allows it always.
func Remove(path string, check Check) (bool, error) {
	if check == nil {
		return unlink(path, path)
	}
	if err := check(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	tmp, err := setAside(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case unsupported(err):
		tmp = path
	case err != nil:
		return false, cannotRemove(path, err)
	default:
		if err := check(tmp); err != nil {
			return false, check.giveBack(tmp, path, err)
		}
	}
	return unlink(tmp, path)
}

// unlink removes a file by its present name. Unlike os.Remove it removes no directory. path is its name in errors.
func unlink(name, path string) (bool, error) {
	err := syscall.Unlink(name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	// On a read-only file system, removing a missing file fails with EROFS.
	if _, missing := os.Lstat(name); errors.Is(missing, fs.ErrNotExist) {
		return false, nil
	}
	return false, cannotRemove(path, err)
}

func cannotRemove(path string, err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err // without the temporary name
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}

// giveBack restores the name of a file that another program wrote between the two checks. It replaces only a file that
// check allows to replace. It returns why, the error of check. If yet another file has the name by now, the error also
// says where the file is.
func (check Check) giveBack(tmp, path string, why error) error {
	if err := check.replace(tmp, path); err != nil {
		return fmt.Errorf("%w; another program wrote %q meanwhile, and its file is now %q: %w", why, path, tmp, err)
	}
	return why
}

// setAside gives a file a temporary name, and returns that name.
func setAside(path string) (tmp string, err error) {
	for {
		tmp = filepath.Join(filepath.Dir(path), tempName())
		if err := renameat2(path, tmp, unix.RENAME_NOREPLACE); !errors.Is(err, fs.ErrExist) {
			return tmp, err
		}
	}
}

func tempName() string {
	return tempPrefix + strconv.FormatUint(uint64(rand.Uint32()), 10) + tempSuffix
}

func renameat2(from, to string, flags uint) error {
	_, err := loop.Uninterrupted(func() (int, error) {
		return 0, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// unsupported reports whether the file system or the kernel does not support this kind of rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
}
