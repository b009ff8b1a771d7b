// Package configure makes a container runtime of a host read CDI specs, and takes that back.
//
// Plan compares the runtime's configuration with what CDI needs, and returns the change of at most one file. It writes
// nothing. Apply makes a change and Undo takes it back. Each of them replaces whole files, so the runtime finds a
// working configuration whenever one of them is killed, and the same call again completes the work.
//
//   - CRI-O has a directory of drop-ins. The package adds a file there, and removes the same file.
//   - Docker has one file, so the package edits it and keeps a backup beside it.
//   - containerd has one file and what it imports. In release 1.7 an import replaces the whole section of a plugin, so
//     the package edits the file that has the last word (docs/adr/0047).
//
// Package runtimeconf says what the runtime does before and after. A plan without effect is refused.
//
// An edit keeps all other text of the file. The package decodes the file before and after the edit, and refuses an
// edit that changes anything else.
package configure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// ErrRefused is in the error for a runtime that cannot be configured, or not by a program.
var ErrRefused = errors.New("not configured")

func refusef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// Plan is what a runtime of a host needs.
type Plan struct {
	// Path is the file to change, "" if nothing must change.
	Path string
	// Old and New are the contents of the file. Old is nil if there is no file.
	Old, New []byte
	// Restart is the command that makes the runtime read the file.
	Restart string
	// Notes are facts that the user should know.
	Notes []string
	// Dirs are the directories of specs that the runtime reads after the change.
	Dirs []string

	dropIn bool
	file   file
}

// maxFile bounds the size of a configuration file, as in package runtimeconf.
const maxFile = 256 << 10

// The suffixes of what Apply leaves beside an edited file: its backup, or a mark for a missing file.
const (
	backupSuffix  = ".cdi-gen-backup"
	createdSuffix = ".cdi-gen-created"
)

// file is a configuration file below a host root. Links are resolved as on the host, because configuration management
// often places links in /etc.
type file struct {
	host  fs.ReadLinkFS
	path  string // on the host
	local string // on this system, without links
}

// open resolves a configuration file. The file may be missing.
func open(root, path string) (file, error) {
	host := hostfs.DirFS(root)
	at, err := hostfs.Resolve(host, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return file{}, fmt.Errorf("resolve %q: %w", path, err)
	}
	return file{host: host, path: path, local: filepath.Join(root, at)}, nil
}

// load opens a configuration file, and reads it.
func load(root, path string) (f file, data []byte, err error) {
	if f, err = open(root, path); err == nil {
		data, err = f.read("")
	}
	return f, data, err
}

// read returns the content of a file beside f, nil if there is none.
func (f file) read(suffix string) ([]byte, error) {
	data, err := hostfs.ReadLocal(f.local+suffix, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return append([]byte{}, data...), nil // never nil
}

// write replaces a file beside f. It keeps mode and owner of f.
func (f file) write(suffix string, data []byte) error {
	opt := atomicfile.Options{Mode: 0o644, Sync: true}
	if info, err := os.Lstat(f.local); err == nil {
		opt.Mode = info.Mode().Perm()
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			opt.Owner = &atomicfile.Owner{UID: int(stat.Uid), GID: int(stat.Gid)}
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.local), 0o755); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, err := atomicfile.Write(f.local+suffix, data, opt)
	return err
}

func (f file) remove(suffix string) error {
	_, err := atomicfile.Remove(f.local+suffix, nil)
	return err
}

// editor is how a runtime is configured.
type editor interface {
	// enable returns the content with CDI on. It returns the old content if nothing must change. old is nil if there is
	// no file.
	enable(old []byte) ([]byte, error)
	// disable takes the setting of enable out of a content that somebody has edited since. backup is the content
	// before enable.
	disable(current, backup []byte) ([]byte, error)
}

// New returns what a release of a runtime needs below a host root. The error has ErrRefused if the release has no CDI,
// if the file cannot be edited safely, or if the change would have no effect.
func New(root string, target runtimes.Target, user runtimeconf.User) (*Plan, error) {
	if target.MaxCDI == "" {
		return nil, refusef("%s %s %s; until then name the nodes yourself: --device /dev/infiniband/uverbs0, "+
			"and --ulimit memlock=-1:-1", target.Runtime, target.Version, target.Note)
	}
	switch target.Runtime {
	case runtimes.Docker:
		return planDocker(root, target, user)
	case runtimes.Containerd:
		return planContainerd(root, target)
	case runtimes.CRIO:
		return planCRIO(root, target)
	}
	now, err := read(hostfs.DirFS(root), target, user)
	if err != nil {
		return nil, err
	}
	if len(now.Dirs) == 0 {
		return nil, refusef("cdi_spec_dirs in %s is empty, so podman reads no specs: remove it", now.DirsFile)
	}
	note := "podman reads CDI specs without any configuration, from " + list(now.Dirs)
	if now.DirsFile != "" {
		note = "podman reads CDI specs from " + list(now.Dirs) + ", as " + now.DirsFile + " says"
	}
	return &Plan{Dirs: now.Dirs, Notes: []string{note}}, nil
}

// read returns what a runtime does now. A configuration with which it would not start is refused.
func read(host fs.ReadLinkFS, target runtimes.Target, user runtimeconf.User) (*runtimeconf.Config, error) {
	now, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: host}, target, user)
	if errors.Is(err, runtimeconf.ErrBroken) {
		return nil, refusef("%w; repair it first", err)
	}
	if err != nil {
		return nil, err
	}
	if now.DirsFile != "" && len(now.Dirs) == 0 && now.On && target.Runtime != runtimes.Podman {
		return nil, refusef("%s names no directory for CDI specs, so %s reads none: remove the empty list", now.DirsFile,
			target.Runtime)
	}
	return now, nil
}

// unchanged is the plan for a runtime that reads specs already.
func unchanged(now *runtimeconf.Config, target runtimes.Target) *Plan {
	return &Plan{Dirs: now.Dirs,
		Notes: append([]string{cmp.Or(now.OnFile, now.Main) + " needs no change: CDI is on"}, otherDirs(now, target)...)}
}

// otherDirs is a note for a runtime that reads specs elsewhere.
func otherDirs(now *runtimeconf.Config, target runtimes.Target) []string {
	if now.DirsFile == "" || now.Reads(target.Dirs[0]) {
		return nil
	}
	return []string{fmt.Sprintf("%s reads CDI specs from %s, as %s says", target.Runtime, list(now.Dirs), now.DirsFile)}
}

// edited plans the edit of a file. The plan has no path if the file says already what it should.
func edited(root, path, restart string, e editor) (*Plan, error) {
	f, old, err := load(root, path)
	if err != nil {
		return nil, err
	}
	text, err := e.enable(old)
	if err != nil {
		return nil, fmt.Errorf("edit %q: %w", path, err)
	}
	if bytes.Equal(old, text) {
		return &Plan{}, nil
	}
	return &Plan{Path: path, Old: old, New: text, Restart: restart, file: f}, nil
}

// Apply makes the change of a plan. First it writes the backup, so that Undo always finds one.
func (p *Plan) Apply() error {
	if p.Path == "" {
		return nil
	}
	if !p.dropIn {
		if err := p.backUp(); err != nil {
			return err
		}
	}
	return p.file.write("", p.New)
}

// backUp writes the backup. It removes the other one of a killed call first.
func (p *Plan) backUp() error {
	have, other := backupSuffix, createdSuffix
	if p.Old == nil {
		have, other = createdSuffix, backupSuffix
	}
	if err := p.file.remove(other); err != nil {
		return err
	}
	return p.file.write(have, p.Old)
}

// Backup returns the name of the file that keeps the old content, "" if there is none.
func (p *Plan) Backup() string {
	if p.dropIn || p.Old == nil {
		return ""
	}
	return p.Path + backupSuffix
}

// Undo is the way back.
type Undo struct {
	// Path is the file to change, "" if nothing must change.
	Path string
	// Old and New are the contents of the file. New is nil if the file is to be removed.
	Old, New []byte
	// Restart is the command that makes the runtime read the file.
	Restart string

	file   file
	remove []string // suffixes
}

// NewUndo returns what takes Apply back. It needs no version: a runtime may have been upgraded or removed since.
func NewUndo(root, runtime string) (*Undo, error) {
	host := runtimeconf.Host{ReadLinkFS: hostfs.DirFS(root)}
	// Any release finds the same files, and a file that is broken is found as well.
	now, err := runtimeconf.Read(host, runtimes.Target{Runtime: runtime, Version: "1.7"}, runtimeconf.User{})
	if err != nil && !errors.Is(err, runtimeconf.ErrBroken) {
		return nil, err
	}
	switch runtime {
	case runtimes.Docker:
		return undoEdit(root, now.Main, dockerRestart, docker{})
	case runtimes.Containerd:
		for _, f := range now.Files {
			if u, err := undoEdit(root, f.Path, containerdRestart, containerd{}); err != nil || u.Path != "" {
				return u, err
			}
		}
		return undoEdit(root, now.Main, containerdRestart, containerd{})
	case runtimes.CRIO:
		return undoCRIO(root)
	}
	return &Undo{}, nil
}

func undoEdit(root, path, restart string, e editor) (*Undo, error) {
	f, current, err := load(root, path)
	if err != nil {
		return nil, err
	}
	backup, errBackup := f.read(backupSuffix)
	created, errCreated := f.read(createdSuffix)
	if err := errors.Join(errBackup, errCreated); err != nil {
		return nil, err
	}
	u := &Undo{Path: path, Old: current, New: current, Restart: restart, file: f,
		remove: []string{backupSuffix, createdSuffix}}
	if backup == nil && created == nil {
		return &Undo{}, nil
	}
	ours, err := e.enable(backup)
	switch {
	case current == nil: // somebody has removed it, or Apply was killed before it wrote
	case err == nil && bytes.Equal(current, ours):
		u.New = backup
	default:
		if u.New, err = e.disable(current, backup); err != nil {
			return nil, fmt.Errorf("take the change of %q back: %w", path, err)
		}
	}
	return u, nil
}

// Apply goes the way back. The backup goes last, so that a killed call can be repeated.
func (u *Undo) Apply() error {
	if u.Path == "" {
		return nil
	}
	var err error
	switch {
	case u.New == nil:
		err = u.file.remove("")
	case !bytes.Equal(u.Old, u.New):
		err = u.file.write("", u.New)
	}
	for _, suffix := range u.remove {
		if err == nil {
			err = u.file.remove(suffix)
		}
	}
	return err
}
