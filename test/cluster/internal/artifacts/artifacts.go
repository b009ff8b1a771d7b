// Package artifacts builds the programs of the embedded cluster from their pinned
// Go modules and keeps them in a cache outside the checkout.
//
// Each directory below test/cluster/build is a wrapper module: its go.mod and
// go.sum pin components and everything they link, its "tool" lines name the
// programs. A component lives in the cache as <name>-<version>-<hash>, where the
// hash covers the wrapper's files and the build flags. A build goes to a temporary
// directory that is renamed at the end, so a directory that exists is complete.
package artifacts

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
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/progress"
)

// Store is the cache of built components.
type Store struct {
	// Cache is the directory that holds bin/.
	Cache string
	// Source is the directory test/cluster of the checkout.
	Source string
	// Kubernetes is the minor version to build; the newest when empty.
	Kubernetes string
	// Progress may be nil.
	Progress *progress.Log
}

// Dirs maps a component's name to the directory of its programs.
type Dirs map[string]string

// Path joins the directories into a value for the PATH variable.
func (d Dirs) Path() string {
	var dirs []string
	for _, c := range Components("") {
		if dir, ok := d[c.Name]; ok && c.Name != "pause" { // which is only an image
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// Ensure builds what the cache does not hold and returns where everything is.
func (s *Store) Ensure(ctx context.Context) (Dirs, error) {
	components := Components(s.Kubernetes)
	var missing []string
	for _, c := range components {
		if dir, _, err := s.place(c); err == nil && !isDir(dir) {
			missing = append(missing, c.Name)
		}
	}
	dirs := Dirs{}
	for _, c := range components {
		position := fmt.Sprintf("%d of %d", slices.Index(missing, c.Name)+1, len(missing))
		dir, err := s.ensureOne(ctx, c, position)
		if err != nil {
			return nil, err
		}
		dirs[c.Name] = dir
	}
	return dirs, nil
}

// EnsureOne builds one component if the cache does not hold it, and returns where it is.
func (s *Store) EnsureOne(ctx context.Context, c Component) (string, error) {
	return s.ensureOne(ctx, c, "1 of 1")
}

func (s *Store) ensureOne(ctx context.Context, c Component, position string) (string, error) {
	dir, err := s.ensure(ctx, c, position)
	if err != nil {
		return "", fmt.Errorf("build component %q: %w", c.Name, err)
	}
	return dir, nil
}

func (s *Store) ensure(ctx context.Context, c Component, position string) (string, error) {
	dir, version, err := s.place(c)
	if err != nil || isDir(dir) {
		return dir, err
	}
	unlock, err := lock(filepath.Join(s.Cache, "bin", c.Name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(dir) { // another process built it while we waited
		return dir, nil
	}
	took := duration(filepath.Join(s.Cache, "bin", c.Name+".took"))
	what := fmt.Sprintf("build %s %s (%s%s)", c.Name, version, position, took.last())
	start := time.Now()
	if err := s.Progress.Long(what, func() error { return build(ctx, c, s.wrapper(c), version, dir) }); err != nil {
		return "", err
	}
	took.keep(time.Since(start))
	return dir, nil
}

// place returns the directory of the component's programs, which need not exist, and its version.
func (s *Store) place(c Component) (dir, version string, err error) {
	version, err = moduleVersion(s.wrapper(c), c.Module)
	if err != nil {
		return "", "", err
	}
	sum, err := s.hash(s.wrapper(c), c, version)
	if err != nil {
		return "", "", err
	}
	return filepath.Join(s.Cache, "bin", fmt.Sprintf("%s-%s-%s", c.Name, version, sum)), version, nil
}

func (s *Store) wrapper(c Component) string { return filepath.Join(s.Source, "build", c.wrapper()) }

// ModuleDir is the directory of a component's module, which it downloads if it is not there: its sources and manifests.
func (s *Store) ModuleDir(ctx context.Context, c Component) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", c.Module)
	cmd.Dir = s.wrapper(c)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if err = errors.Join(err, json.Unmarshal(out, &module)); err != nil {
		return "", fmt.Errorf("find the directory of module %q: %w %s", c.Module, err, module.Error)
	}
	return module.Dir, nil
}

// duration is the path of a file that says how long the last build of a component took.
// It serves the progress lines alone, so an unreadable file counts as none.
type duration string

func (d duration) last() string {
	data, err := os.ReadFile(string(d))
	took, parseErr := time.ParseDuration(string(data))
	if err != nil || parseErr != nil {
		return ""
	}
	return fmt.Sprintf("; %s last time", took)
}

func (d duration) keep(took time.Duration) {
	_ = os.WriteFile(string(d), []byte(took.Round(time.Second).String()), 0o644)
}

// NoDWARF keeps the compiler from writing what debuggers need and -s -w drops: a fifth of its time. GOGC spends memory
// on the compiler's heap for another fourth, within GOMEMLIMIT. Programs that are built with -trimpath and NoDWARF
// share compiled packages with the cluster's (hack/env.sh).
const NoDWARF = "-gcflags=all=-dwarf=false"

// build compiles the component into a temporary sibling of dir and renames it. The
// caller holds the component's lock.
func build(ctx context.Context, c Component, src, version, dir string) error {
	tmp := filepath.Join(filepath.Dir(dir), ".build-"+c.Name)
	// What a killed build left; the lock says that no other one is at work.
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove an interrupted build: %w", err)
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("create a directory for the build: %w", err)
	}
	defer os.RemoveAll(tmp)
	cgo := "0"
	if c.Cgo {
		cgo = "1"
	}
	cmd := exec.CommandContext(ctx, "go", c.args(version, tmp)...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOWORK=off", "GOFLAGS=-buildvcs=false -mod=readonly",
		"GOOS=linux", "GOARCH="+runtime.GOARCH, "GOGC=400", "GOMEMLIMIT=2GiB")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build in %q: %w%s\n%s", src, err, hint(c), tail(string(out), 30))
	}
	for from, to := range c.Rename {
		if err := os.Rename(filepath.Join(tmp, from), filepath.Join(tmp, to)); err != nil {
			return fmt.Errorf("rename the program: %w", err)
		}
	}
	return os.Rename(tmp, dir)
}

func (c Component) args(version, out string) []string {
	args := []string{"build", "-trimpath", NoDWARF, "-ldflags", c.ldflags(version), "-o", out + "/"}
	if c.Tags != "" {
		args = append(args, "-tags", c.Tags)
	}
	if c.GCFlags != "" {
		args = append(args, "-gcflags", c.GCFlags)
	}
	if len(c.Targets) == 0 {
		return append(args, "tool")
	}
	return append(args, c.Targets...)
}

// hint says which package a failed cgo build most likely misses.
func hint(c Component) string {
	if !c.Cgo {
		return ""
	}
	return " (it needs gcc, pkg-config and libseccomp-dev: run hack/install-packages.sh demo)"
}

// hash covers what decides the programs: the wrapper's files and the flags.
func (s *Store) hash(src string, c Component, version string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOARCH, c.Cgo, c.args(version, ""))
	err := filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, e.Name(), len(data))
		_, err = h.Write(data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the wrapper module: %w", err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12], nil
}

// moduleVersion reads the version of module that the go.mod in dir requires.
func moduleVersion(dir, module string) (string, error) {
	if module == "" {
		return "local", nil
	}
	path := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the wrapper module: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && f[0] == module && strings.HasPrefix(f[1], "v") {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("find the version of %q in %q: no such requirement", module, path)
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
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
