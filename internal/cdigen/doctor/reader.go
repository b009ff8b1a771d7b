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

// unseen is what could not be looked at, with the reasons.
type unseen map[string]error

// addUnlessMissing records a failed look. That something does not exist is an answer.
func (u unseen) addUnlessMissing(what string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u[what] = err
	}
}

// has reports whether a look failed.
func (u unseen) has(look string) bool {
	for what := range u {
		if finding.Overlap(look, what) {
			return true
		}
	}
	return false
}

// findings has a finding for each failed look. uid is the user of this process: root gets no hint to run it as root.
func (u unseen) findings(uid int) (list findings) {
	for _, what := range slices.Sorted(maps.Keys(u)) {
		reason := u[what].Error()
		if errors.Is(u[what], fs.ErrPermission) && uid != 0 {
			reason += " (run as root to see it)"
		}
		list.add(notSeen.Found(finding.NotSeen, what+": "+reason).About(what))
	}
	return list
}

// reader reads a host. It records what it cannot read.
type reader struct {
	*Host
	unseen unseen // never nil
}

// maxFile bounds the size of a file that is read. The longest are a host's list of mounts and specs of a thousand
// devices.
const maxFile = 16 << 20

// optional reads a file that may be missing. It records a file that exists but cannot be read as not seen.
func (r *reader) optional(name string) (string, bool) {
	data, err := hostfs.ReadFile(r.Root, name, maxFile)
	if err != nil {
		r.unseen.addUnlessMissing(name, err)
		return "", false
	}
	return string(data), true
}

// list lists a directory that may be missing.
func (r *reader) list(name string) []fs.DirEntry {
	entries, err := hostfs.ReadDir(r.Root, name, hostfs.MaxEntries)
	r.unseen.addUnlessMissing(name, err)
	return entries
}

// osrelease has the release of the running kernel.
const osrelease = "/proc/sys/kernel/osrelease"

// kernelRelease returns the release of the running kernel, "" if it cannot be read.
func (r *reader) kernelRelease() string {
	release, _ := r.optional(osrelease)
	return strings.TrimSpace(release)
}

// sysHas reports whether sysfs has a path. It records one that may not be looked at as not seen.
func (r *reader) sysHas(name string) bool {
	_, err := fs.Stat(r.Sys, name)
	r.unseen.addUnlessMissing("/sys/"+name, err)
	return err == nil
}

// sysLacks reports whether sysfs is known to lack a path.
func (r *reader) sysLacks(name string) bool { return !r.sysHas(name) && !r.unseen.has("/sys/"+name) }

// sysRead reads an attribute of sysfs that may be missing, without its newline. It returns "" on an error.
func (r *reader) sysRead(name string) string {
	data, err := fs.ReadFile(r.Sys, name)
	r.unseen.addUnlessMissing("/sys/"+name, err)
	return strings.TrimSpace(string(data))
}

// sysList lists a directory of sysfs that may be missing.
func (r *reader) sysList(name string) []fs.DirEntry {
	entries, err := fs.ReadDir(r.Sys, name)
	r.unseen.addUnlessMissing("/sys/"+name, err)
	return entries
}
