// Package runtimeconf reads what the configuration of a container runtime says about CDI: whether the runtime reads
// specs, and from which directories.
//
// It merges the files as that release of the runtime does, because the same files mean different things to two releases
// (docs/adr/0047). It reads nothing but files below a host root, /proc among them, and starts no program.
package runtimeconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// ErrBroken is in the error for a configuration with which the runtime would not start.
var ErrBroken = errors.New("the runtime would not start")

func brokenf(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrBroken)...)
}

// User is the user whose runtime is meant. Rootless runtimes have configuration files of their user. The zero value is
// root without files of its own.
type User struct {
	UID                          int
	Home, ConfigHome, RuntimeDir string
}

// configHome is the user's directory of configuration files, "" if it is unknown.
func (u User) configHome() string {
	if u.ConfigHome == "" && u.Home != "" {
		return path.Join(u.Home, ".config")
	}
	return u.ConfigHome
}

// Config is what a runtime does by its configuration.
type Config struct {
	// On reports whether the runtime reads specs. OnFile is the file that says so, or that has the last word and does not
	// say it; "" without such a file.
	On     bool
	OnFile string
	// Dirs are the directories that it reads, the one of highest priority last. DirsFile is the file that names them, ""
	// for the default.
	Dirs     []string
	DirsFile string
	// Main is the configuration file to edit, also if it is missing.
	Main string
	// Rootless reports whether a user runs the daemon.
	Rootless bool
	// NoCRI reports whether containerd runs without its CRI plugin, so that nobody reads the setting.
	NoCRI bool
	// Files are the files of containerd, in the order in which it merges them, and Version is that of the result.
	Files   []File
	Version int64
}

// File is a configuration file with its content.
type File struct {
	Path string
	Text []byte
}

// Host is a file system of a host, in which some files may be replaced by others that are not written yet.
type Host struct {
	fs.ReadLinkFS
	// Instead has the content of files that are to be written, by path.
	Instead map[string][]byte

	daemons []daemon // that run
}

// maxFile bounds the size of a configuration file. Real ones have less than 64 KiB. go-toml takes time quadratic in the
// number of keys, and 400 bytes for two of a dotted key: 85 s and 1.5 GiB for 4 MiB.
const maxFile = 256 << 10

// read returns the content of a file, nil if it is missing.
func (h Host) read(name string) ([]byte, error) {
	if text, ok := h.Instead[name]; ok {
		return text, nil
	}
	data, err := hostfs.ReadFile(h, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return append([]byte{}, data...), nil // never nil
}

// names lists a directory that may be missing, with the files that are to be written.
func (h Host) names(dir string, subdirectories bool) ([]string, error) {
	entries, err := hostfs.ReadDir(h, dir, hostfs.MaxEntries)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list configuration: %w", err)
	}
	var names []string
	for _, e := range entries {
		if subdirectories || !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	for name := range h.Instead {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// decode decodes a TOML file.
func decode(name string, text []byte, into any) error {
	if err := toml.Unmarshal(text, into); err != nil {
		return brokenf("%q is no TOML (%w)", name, err)
	}
	return nil
}

// Read returns what a release of a runtime does on a host. The error has ErrBroken for a configuration that the runtime
// refuses; then the result still has the files. The arguments and the environment of a running daemon count before its
// unit.
func Read(host Host, target runtimes.Target, user User) (*Config, error) {
	host.daemons = findDaemons(host, user.UID)
	return readWith(host, target, user)
}

// readWith is Read with the daemons that run.
func readWith(host Host, target runtimes.Target, user User) (*Config, error) {
	c := &Config{On: target.OnByDefault, Dirs: target.Dirs}
	var err error
	switch target.Runtime {
	case runtimes.Containerd:
		err = c.readContainerd(host, target)
	case runtimes.Docker:
		err = c.readDocker(host, target, user)
	case runtimes.Podman:
		err = c.readPodman(host, target, user)
	case runtimes.CRIO:
		err = c.readCRIO(host)
	}
	return c, err
}

// SpecDirs returns the directories of the configuration as they are on the host.
func (c *Config) SpecDirs(host fs.ReadLinkFS) []runtimes.Dir {
	dirs := Stat(host, c.Dirs...)
	for i, dir := range dirs {
		if dir.State == runtimes.DirThere && c.linked(dir.Path) {
			dirs[i].State = runtimes.DirLink
		}
	}
	return dirs
}

// linked reports whether a directory is a link for the daemon: rootlesskit gives a rootless one an /etc and a /run in
// which each entry is a link to the host's.
func (c *Config) linked(dir string) bool {
	top := path.Dir(dir)
	return c.Rootless && (top == "/etc" || top == "/run" || top == "/var/run")
}

// ReadsUnlinked reports whether one of the directories is no link for the daemon. CDI libraries before
// [runtimes.FollowsLink] read no other.
func (c *Config) ReadsUnlinked() bool {
	return slices.ContainsFunc(c.Dirs, func(dir string) bool { return !c.linked(dir) })
}

// Stat looks at directories of specs. What cannot be looked at counts as there.
func Stat(host fs.ReadLinkFS, paths ...string) []runtimes.Dir {
	dirs := make([]runtimes.Dir, len(paths))
	for i, p := range paths {
		dirs[i] = runtimes.Dir{Path: p, State: stateOf(host, p)}
	}
	return dirs
}

// stateOf looks at one directory. A link that leads nowhere counts as there: it is empty, and hides no other.
func stateOf(host fs.ReadLinkFS, dir string) runtimes.DirState {
	linked := false
	if parent, err := hostfs.Resolve(host, path.Dir(dir)); err == nil {
		info, err := host.Lstat(strings.TrimPrefix(path.Join(parent, path.Base(dir)), "/"))
		linked = err == nil && info.Mode()&fs.ModeSymlink != 0
	}
	target, err := hostfs.Stat(host, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !linked:
		return runtimes.DirMissing
	case err != nil:
		return runtimes.DirThere
	case !target.IsDir():
		return runtimes.DirOther
	case linked:
		return runtimes.DirLink
	}
	return runtimes.DirThere
}
