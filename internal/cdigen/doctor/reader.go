package doctor

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// reader reads a host. It records what it cannot read.
type reader struct {
	*Host
	unseen map[string]string // reasons, by what could not be looked at
}

// addUnseen records that something could not be checked.
func (r *reader) addUnseen(what string, err error) {
	reason := err.Error()
	if errors.Is(err, fs.ErrPermission) && r.UID != 0 {
		reason += " (run as root to see it)"
	}
	if r.unseen == nil {
		r.unseen = map[string]string{}
	}
	r.unseen[what] = reason
}

// blind reports whether a look failed.
func (r *reader) blind(look string) bool {
	for what := range r.unseen {
		if finding.Overlap(look, what) {
			return true
		}
	}
	return false
}

// missed has a finding for each thing that could not be looked at.
func (r *reader) missed() (list findings) {
	for _, what := range slices.Sorted(maps.Keys(r.unseen)) {
		list.add(notSeen.Found(finding.NotSeen, what+": "+r.unseen[what]).About(what))
	}
	return list
}

// maxFile bounds the size of a file that is read. The longest are a host's list of mounts and specs of a thousand
// devices.
const maxFile = 16 << 20

// optional reads a file that may be missing. It records a file that exists but cannot be read as not seen.
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

// sysHas reports whether sysfs has a path. It records one that may not be looked at as not seen.
func (r *reader) sysHas(name string) bool {
	_, err := fs.Stat(r.Sys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addUnseen("/sys/"+name, err)
	}
	return err == nil
}

// sysLacks reports whether sysfs is known to lack a path.
func (r *reader) sysLacks(name string) bool { return !r.sysHas(name) && !r.blind("/sys/"+name) }

// sysRead reads an attribute of sysfs that may be missing, without its newline. It returns "" on an error.
func (r *reader) sysRead(name string) string {
	data, err := fs.ReadFile(r.Sys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addUnseen("/sys/"+name, err)
	}
	return strings.TrimSpace(string(data))
}

// sysList lists a directory of sysfs that may be missing.
func (r *reader) sysList(name string) []fs.DirEntry {
	entries, err := fs.ReadDir(r.Sys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addUnseen("/sys/"+name, err)
	}
	return entries
}
