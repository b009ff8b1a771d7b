// Package ocibundle changes the configuration of an OCI bundle (https://github.com/opencontainers/runtime-spec).
//
// The bundle may belong to a user while this process runs as root, for example in a prolog of Slurm. So the package
// follows no symbolic link, neither in the path of the bundle nor in the bundle. It opens no device and waits for no
// pipe. The new file replaces the old one whole, and has its owner and mode. After an error the bundle is unchanged.
package ocibundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// Config is the name of the configuration in a bundle.
const Config = "config.json"

// maxConfig bounds the size of a configuration.
const maxConfig = 16 << 20

// Bundle is an open bundle. Close it after use.
type Bundle struct {
	path string
	dir  int // its directory
	stat unix.Stat_t
}

// Open opens the directory of a bundle.
func Open(path string) (*Bundle, error) {
	abs := path
	if !filepath.IsAbs(path) {
		cwd := make([]byte, unix.PathMax) // os.Getwd may return a path with links
		n, err := unix.Getcwd(cwd)
		if err != nil {
			return nil, fmt.Errorf("open bundle %q: %w", path, err)
		}
		abs = filepath.Join(string(cwd[:n-1]), path)
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := openat(unix.AT_FDCWD, "/", flags)
	at := "/"
	for part := range strings.SplitSeq(strings.Trim(filepath.Clean(abs), "/"), "/") {
		if err != nil || part == "" {
			break
		}
		at = filepath.Join(at, part)
		parent := dir
		dir, err = openat(parent, part, flags)
		if err != nil && isLink(parent, part) {
			err = fmt.Errorf("%q is a symbolic link, which is not followed: name the bundle by its real path", at)
		}
		unix.Close(parent)
	}
	if err != nil {
		return nil, fmt.Errorf("open bundle %q: %w", path, err)
	}
	return &Bundle{path: path, dir: dir}, nil
}

// Close frees the directory.
func (b *Bundle) Close() { unix.Close(b.dir) }

func openat(dir int, name string, flags int) (fd int, err error) {
	return loop.Uninterrupted(func() (int, error) { return unix.Openat(dir, name, flags, 0o600) })
}

func isLink(dir int, name string) bool {
	var stat unix.Stat_t
	return unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK
}

// Read returns the configuration.
func (b *Bundle) Read() ([]byte, error) {
	data, err := b.read()
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", filepath.Join(b.path, Config), err)
	}
	return data, nil
}

func (b *Bundle) read() ([]byte, error) {
	fd, err := openat(b.dir, Config, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil && isLink(b.dir, Config) {
		return nil, errors.New("it is a symbolic link, which is not followed")
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), Config)
	defer f.Close()
	if err := unix.Fstat(fd, &b.stat); err != nil {
		return nil, err
	}
	if b.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("it is larger than %d MiB", maxConfig>>20)
	}
	return data, err
}

// Replace replaces the configuration that Read returned.
func (b *Bundle) Replace(data []byte) error {
	temp := ".rdma.dev-" + strconv.FormatUint(rand.Uint64(), 36) + ".tmp"
	err := b.write(temp, data)
	if err == nil {
		err = unix.Renameat(b.dir, temp, b.dir, Config)
	}
	if err != nil {
		if rest := unix.Unlinkat(b.dir, temp, 0); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
		return fmt.Errorf("write %q: %w", filepath.Join(b.path, Config), err)
	}
	return nil
}

func (b *Bundle) write(name string, data []byte) error {
	fd, err := openat(b.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if err == nil && (int(b.stat.Uid) != os.Geteuid() || int(b.stat.Gid) != os.Getegid()) {
		err = f.Chown(int(b.stat.Uid), int(b.stat.Gid))
	}
	if err == nil {
		err = f.Chmod(fs.FileMode(b.stat.Mode & 0o777))
	}
	return errors.Join(err, f.Close())
}
