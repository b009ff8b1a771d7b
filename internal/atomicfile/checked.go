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
)

// Check says whether a file may be replaced or removed: nil for yes, fs.ErrNotExist for none. It is
// asked twice: of the file under its name, and once nobody else can find it any more, under
// another name of the same directory. So a file that takes the place of a good one between the
// two looks comes back. A file system without renameat2, as NFS, has the first look only.
type Check func(path string) error

// replace gives the file of the temporary name its final one, where check allows it. The caller
// removes the temporary file after an error.
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

// Remove removes the file at path, where check allows it, and reports whether there was one.
func Remove(path string, check Check) (bool, error) {
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
	if err := syscall.Unlink(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, cannotRemove(path, err)
	}
	return true, nil
}

func cannotRemove(path string, err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err // without the temporary name
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}

// giveBack gives its name back to a file that has come between the two looks, in place of one
// that check allows to replace. It returns why the file is none of ours, and where it is if
// yet another one stands under its name by now.
func (check Check) giveBack(tmp, path string, why error) error {
	if err := check.replace(tmp, path); err != nil {
		return fmt.Errorf("%w; another program wrote %q meanwhile, and its file is now %q: %w", why, path, tmp, err)
	}
	return why
}

// setAside gives a file a temporary name, and returns it.
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
	_, err := uninterrupted(func() (int, error) {
		return 0, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// unsupported reports whether the file system or the kernel does not know a way to rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
}
