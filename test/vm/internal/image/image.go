// Package image builds what the virtual machine boots, from Debian's own packages: a
// kernel, its modules (soft-iWARP is built from the kernel's source, Debian leaves it
// out), a root file system with container runtimes and RDMA tools, and a small
// container image with the same tools.
//
// Everything is made with the tools of a fresh Debian in a directory, so that the host
// only needs debootstrap and mke2fs, and a Debian or Ubuntu of any version does.
//
// An image lives in the cache as vm-<release>-<hash>, where the hash covers the recipe.
// The kernel and the packages are the newest ones of the day it was built; they are
// listed in its manifest. A build goes to a temporary directory that is renamed at the
// end, so a directory that exists is complete.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Image is a built image: a directory of the cache.
type Image struct {
	Dir string
	Manifest
}

// Manifest says what is in an image.
type Manifest struct {
	// Kernel is the version, as uname -r has it.
	Kernel string `json:"kernel"`
	// Built is when.
	Built time.Time `json:"built"`
	// Packages are the installed packages and their versions.
	Packages map[string]string `json:"packages"`
}

// The files of an image.
const (
	kernelFile   = "vmlinux"
	rootFile     = "root.ext4"
	earlyModules = "early"
	toolsFile    = "rdma-tools.tar"
	manifestFile = "manifest.json"
)

// VMLinux is the kernel, not compressed.
func (i *Image) VMLinux() string { return filepath.Join(i.Dir, kernelFile) }

// Root is the root file system.
func (i *Image) Root() string { return filepath.Join(i.Dir, rootFile) }

// EarlyModules is a directory with the modules that the root file system needs.
func (i *Image) EarlyModules() string { return filepath.Join(i.Dir, earlyModules) }

// Tools is the container image with the RDMA tools, as a docker-archive.
func (i *Image) Tools() string { return filepath.Join(i.Dir, toolsFile) }

// Builder finds an image in the cache, or builds it.
type Builder struct {
	// Cache is the directory of the cache.
	Cache string
	// Mirror is the Debian mirror: http://deb.debian.org/debian.
	Mirror string
	// Step reports a step of the work.
	Step func(format string, args ...any)
}

// ErrMissing says that the image is not in the cache.
var ErrMissing = errors.New("the image is not built")

// Dir is the directory of the image of this recipe.
func (b *Builder) Dir() string {
	recipe := fmt.Sprint(format, b.Mirror, packages, kernelModules, earlyModuleNames, buildPackages, toolPrograms, dpkgConfig, string(rxmPatch))
	sum := sha256.Sum256([]byte(recipe))
	return filepath.Join(b.Cache, fmt.Sprintf("vm-%s-%x", release, sum[:6]))
}

// Open returns the image, or ErrMissing.
func (b *Builder) Open() (*Image, error) {
	dir := b.Dir()
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the image %q: %w", dir, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("read the image's manifest: %w", err)
	}
	i := &Image{Dir: dir}
	if err := json.Unmarshal(data, &i.Manifest); err != nil {
		return nil, fmt.Errorf("parse the image's manifest %q: %w", dir, err)
	}
	return i, nil
}

// Ensure builds the image if the cache lacks it, or if it is to be renewed.
func (b *Builder) Ensure(ctx context.Context, renew bool) (*Image, error) {
	if i, err := b.Open(); err == nil && !renew || err != nil && !errors.Is(err, ErrMissing) {
		return i, err
	}
	if err := Check(); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(b.Cache, buildLock))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if i, err := b.Open(); err == nil && !renew {
		return i, nil // another process built it while we waited
	}
	if err := b.build(ctx); err != nil {
		return nil, fmt.Errorf("build the virtual machine's image: %w", err)
	}
	return b.Open()
}

// Check says what the host lacks for a build.
func Check() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("build the image: only amd64 hosts are supported, this is %s", runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		return errors.New("build the image: debootstrap needs root")
	}
	for _, program := range []string{"debootstrap", "mke2fs", "unshare", "xz", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("build the image: %w (run hack/install-packages.sh vm)", err)
		}
	}
	return nil
}

// build makes the image in a temporary directory and puts it in its place.
func (b *Builder) build(ctx context.Context) error {
	return b.replace(b.Dir(), func(w *work) error { return w.run(ctx) })
}

// buildLock keeps out other builds. Its owner alone has the temporary directory.
const buildLock = "vm.lock"

// replace makes a directory of the cache by a build. The caller holds the lock.
func (b *Builder) replace(dir string, build func(*work) error) error {
	tmp := filepath.Join(b.Cache, ".build-vm")
	// What a killed build left; the lock says that no other one is at work. debootstrap mounts the host's /proc and /sys.
	for _, mounted := range []string{"root/proc", "root/sys"} {
		err := unix.Unmount(filepath.Join(tmp, mounted), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // nothing is mounted there
			return fmt.Errorf("unmount what an interrupted build left at %q: %w", filepath.Join(tmp, mounted), err)
		}
	}
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove an interrupted build: %w", err)
	}
	out := filepath.Join(tmp, "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("create a directory for the build: %w", err)
	}
	defer os.RemoveAll(tmp)
	w := &work{Builder: b, out: out, tmp: tmp, root: tree{filepath.Join(tmp, "root")}, kit: tree{filepath.Join(tmp, "kit")}}
	if err := build(w); err != nil {
		return err
	}
	// A renewed image takes the place of the old one in two steps; a virtual machine
	// that runs meanwhile has its files open.
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the old image: %w", err)
	}
	return os.Rename(out, dir)
}

// lock takes an exclusive lock on path until the returned function is called.
func lock(path string) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the cache: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// output runs a program of the host and returns its standard output; an error carries
// the end of its standard error.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(stdout.String()+stderr.String(), 15))
	}
	return stdout.String(), nil
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
