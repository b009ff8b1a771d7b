// Package install installs the rdma-hook binary on the host and removes old versions.
//
// CDI specs name the hook by its path on the host. A container runtime runs it when a container with such a spec
// starts, even after the driver that wrote the spec was upgraded or removed. So the file name contains the version, a
// version stays while a spec names it, and files are replaced by rename: a runtime finds the whole binary or none.
package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// prefix is the beginning of the names of our files in the directory.
const prefix = "rdma-hook-"

// versionPattern matches versions that are plain file names.
var versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)

// tempMaxAge is the age from which a temporary file is not being written any more.
const tempMaxAge = time.Hour

// Path returns the path of an installed version.
func Path(dir, version string) string {
	return filepath.Join(dir, prefix+version)
}

// Install copies the binary src to DIR/rdma-hook-VERSION with mode 0755, and returns that path. It is idempotent, and
// two drivers may call it at the same time: it does not change a file with the same content. It creates DIR if needed.
// DIR must be on a mount that allows execution. As root, Install rejects a DIR in which users other than root can
// replace the hook.
//
// CDI specs need the host's path, so a pod must mount DIR at the path that it has on the host.
func Install(src, dir, version string) (path string, err error) {
	if !versionPattern.MatchString(version) {
		return "", fmt.Errorf("install hook: version %q is not usable in a file name: it must match %s", version,
			versionPattern)
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
	if os.Geteuid() == 0 { // a pod cannot see the host's directories above it; cdi-gen doctor checks them
		if err := hostfs.CheckRootOnly(hostfs.DirFS("/"), dir); err != nil {
			return "", fmt.Errorf("install hook: directory %w", err)
		}
	}
	path = Path(dir, version)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return "", fmt.Errorf("install hook %q: a directory is in its place: remove it", path)
	}
	// After a power failure containers may start before the driver. They cannot start if the hook is an empty file.
	opt := atomicfile.Options{Mode: 0o755, Sync: true, Own: true}
	if _, err := atomicfile.Write(path, binary, opt); err != nil {
		return "", fmt.Errorf("install hook: %w", err)
	}
	return path, nil
}

// Prune removes the versions in dir for which keep returns false. keep gets the path that Install returned. It must
// return true for the version in use, and for every path in a CDI spec, whoever wrote the spec. Prune touches no files
// of other names, and only regular files. It also removes the temporary files of an interrupted Install, after an hour.
// It continues after an error; removed is always valid. A missing dir is treated as empty.
func Prune(dir string, keep func(path string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("prune hooks: %w", err)
	}
	errs := []error{atomicfile.Sweep(dir, tempMaxAge)}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		version, ok := strings.CutPrefix(entry.Name(), prefix)
		if !ok || !versionPattern.MatchString(version) || !entry.Type().IsRegular() || keep(path) {
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
