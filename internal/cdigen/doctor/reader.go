package doctor

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// reader reads a host. It records what it cannot read.
type reader struct {
	*Host
	unseen []Unseen
}

// addUnseen records that something could not be checked.
func (r *reader) addUnseen(what string, err error) {
	reason := err.Error()
	if errors.Is(err, fs.ErrPermission) && r.UID != 0 {
		reason += " (run as root to see it)"
	}
	r.unseen = append(r.unseen, Unseen{what, reason})
}

// maxFile bounds the size of a file that is read. The longest are a host's list of mounts and specs of a thousand
// devices.
const maxFile = 16 << 20

// optional reads a file that may be missing. It records a file that exists but cannot be read as unseen.
func (r *reader) optional(name string) (string, bool) {
	data, err := hostfs.ReadFile(r.Root, name, maxFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.addUnseen(name, err)
		}
		return "", false
	}
	return string(data), true
}

// list lists a directory that may be missing.
func (r *reader) list(name string) []fs.DirEntry {
	entries, err := hostfs.ReadDir(r.Root, name, hostfs.MaxEntries)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addUnseen(name, err)
	}
	return entries
}

// sysHas reports whether sysfs has a path. It records one that may not be looked at as unseen.
func (r *reader) sysHas(name string) bool {
	_, err := fs.Stat(r.Sys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addUnseen("/sys/"+name, err)
	}
	return err == nil
}

// sysRead reads an attribute of sysfs without its newline. It returns "" on an error.
func (r *reader) sysRead(name string) string {
	data, err := fs.ReadFile(r.Sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
