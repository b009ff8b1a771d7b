// Package install puts the rdma-hook binary on the host and removes old ones.
//
// CDI specs name the hook by its path on the host, and a container runtime runs
// it whenever a container that such a spec applies to starts, also long after
// the driver that wrote the spec was upgraded or removed. So the file name carries
// the version, a version stays while a spec names it, and a file is replaced
// by rename only: a runtime finds the whole binary or none.
package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// prefix starts the name of every file of ours in the directory.
const prefix = "rdma-hook-"

// versionPattern keeps a version one plain file name.
var versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

// tempMaxAge is when a temporary file is certainly not one being written now.
const tempMaxAge = time.Hour

// Path is where Install puts a version.
func Path(dir, version string) string {
	return filepath.Join(dir, prefix+version)
}

// Install copies the binary src to DIR/rdma-hook-VERSION with mode 0755 and
// returns that path. A file that is there with the same content is left alone,
// so it may be called at every start and by two drivers at a time. DIR is made
// where it is missing; it must be on a mount that allows execution. As root, Install
// refuses a DIR in which others than root can replace the hook.
//
// The path is the one this process sees: in a pod, mount DIR under the path it
// has on the host, since CDI specs need the host's path.
func Install(src, dir, version string) (path string, err error) {
	if !versionPattern.MatchString(version) {
		return "", fmt.Errorf("install hook: version %q is not usable in a file name: it must match %s", version, versionPattern)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("install hook: directory %q is not an absolute path, as CDI specs need it", dir)
	}
	binary, err := os.ReadFile(src)
	if err != nil {
		return "", fmt.Errorf("install hook: read its binary: %w", err)
	}
	if len(binary) == 0 {
		return "", fmt.Errorf("install hook: its binary %q is empty", src)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("install hook: make its directory: %w", err)
	}
	if err := checkExec(dir); err != nil {
		return "", fmt.Errorf("install hook: %w", err)
	}
	if os.Geteuid() == 0 { // of the host's directories above it a pod sees none; cdi-gen doctor does
		if err := hostfs.CheckRootOnly(hostfs.DirFS("/"), dir); err != nil {
			return "", fmt.Errorf("install hook: directory %w", err)
		}
	}
	path = Path(dir, version)
	same, err := isInstalled(path, binary)
	if err == nil && !same {
		err = write(path, binary)
	}
	if err != nil {
		return "", fmt.Errorf("install hook %q: %w", path, err)
	}
	return path, nil
}

// isInstalled says whether path is a regular file of ours with that content and mode 0755.
func isInstalled(path string, binary []byte) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return false, fmt.Errorf("a directory is in its place: remove it")
	case info.Mode() != 0o755 || info.Size() != int64(len(binary)):
		return false, nil
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false, nil
	}
	there, err := os.ReadFile(path)
	return err == nil && bytes.Equal(there, binary), err
}

// write replaces path. It syncs: after a power failure containers may start
// before the driver, and with an empty file in place of the hook they could not.
func write(path string, binary []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(binary); err != nil {
		return err
	}
	if err := f.Chmod(0o755); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Prune removes the versions in dir for which keep returns false. keep gets the
// path that Install returned; it must hold on to the version in use and to
// every path that a CDI spec of any driver or of cdi-gen names. Files of other names
// are never touched, nor is anything but a regular file. Prune goes on after an error;
// removed is what is gone in any case. A missing dir is an empty one.
func Prune(dir string, keep func(path string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("prune hooks: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !entry.Type().IsRegular() || !isStale(entry, path, keep) {
			continue
		}
		err := os.Remove(path)
		switch {
		case err == nil:
			removed = append(removed, path)
		case !errors.Is(err, fs.ErrNotExist): // another driver may be pruning, too
			errs = append(errs, fmt.Errorf("prune hook: %w", err))
		}
	}
	return removed, errors.Join(errs...)
}

// tempPattern matches the names that write gives to os.CreateTemp.
var tempPattern = regexp.MustCompile(`^\.` + prefix + `[A-Za-z0-9][A-Za-z0-9._+-]{0,127}\.[0-9]+\.tmp$`)

// isStale decides on a regular file: an installed version by keep, what an
// interrupted Install has left by its age.
func isStale(entry fs.DirEntry, path string, keep func(string) bool) bool {
	name := entry.Name()
	if tempPattern.MatchString(name) {
		info, err := entry.Info()
		return err == nil && time.Since(info.ModTime()) > tempMaxAge
	}
	version := name[min(len(name), len(prefix)):]
	return name == prefix+version && versionPattern.MatchString(version) && !keep(path)
}
