package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/phrase"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// facts holds what all checks need. Diagnose gathers it once.
type facts struct {
	*Host
	snap    *rdma.Snapshot
	specs   []specFile
	daemons []daemon
	engines []engine
	unseen  []Unseen
}

// checks run in this order. Each adds its findings to an empty list.
var checks = []func(*facts, *findings){
	checkDrivers, checkModules, checkDevices, checkNetns, checkRDMACgroup,
	checkNodes,
	checkPorts, checkGUIDs, checkRoCEGIDs,
	checkMemlock, checkUnits, checkUlimits,
	checkHooks,
	checkSpecs,
	checkMADNodes,
	checkEngines,
	checkSecondOpinion,
	checkGPUs,
}

// Diagnose checks a host. It fails only if it cannot read the host's sysfs at all. The report lists everything else
// that could not be checked as unseen.
func Diagnose(ctx context.Context, h *Host) (*Report, error) {
	snap, err := rdma.Discover(h.Sys)
	if err != nil {
		return nil, fmt.Errorf("diagnose host: %w", err)
	}
	f := &facts{Host: h, snap: snap}
	f.specs = readSpecs(f)
	f.daemons = findDaemons(f)
	f.engines = findEngines(ctx, f)
	var all findings
	for _, check := range checks {
		var out findings
		check(f, &out)
		all = append(all, out...)
	}
	slices.SortFunc(f.unseen, func(a, b Unseen) int { return strings.Compare(a.What, b.What) })
	r := newReport(all, slices.Compact(f.unseen))
	for _, e := range f.engines {
		r.Runtimes = append(r.Runtimes, e.runtime+" "+e.version)
	}
	return r, ctx.Err()
}

// findings is a list of findings.
type findings []Finding

// add adds findings, except those without an ID.
func (l *findings) add(list ...Finding) {
	for _, f := range list {
		if f.ID != "" {
			*l = append(*l, f)
		}
	}
}

// found makes a finding. Its group comes from the catalogue.
func found(id ID, s Severity, title string) Finding {
	_, group := lookup(id)
	return Finding{ID: id, Group: group, Severity: s, Title: title}
}

// foundIn makes a finding about subjects. Its title is their number, with the noun for one of them, and the rest. It
// has no ID if there is no subject.
func foundIn(subjects []string, id ID, s Severity, noun, rest string) Finding {
	if len(subjects) == 0 {
		return Finding{}
	}
	return found(id, s, phrase.Count(len(subjects), noun)+rest).about(subjects...)
}

// about sets the subjects.
func (f Finding) about(subjects ...string) Finding {
	f.Subjects = subjects
	return f
}

// because sets the reason.
func (f Finding) because(format string, args ...any) Finding {
	f.Reason = fmt.Sprintf(format, args...)
	return f
}

// fix sets the commands, one per line.
func (f Finding) fix(commands ...string) Finding {
	f.Fix = strings.Join(commands, "\n")
	return f
}

// addUnseen records that something could not be checked.
func (f *facts) addUnseen(what string, err error) {
	reason := err.Error()
	if errors.Is(err, fs.ErrPermission) && f.UID != 0 {
		reason += " (run as root to see it)"
	}
	f.unseen = append(f.unseen, Unseen{what, reason})
}

// maxFile bounds the size of a file that is read. The longest are a host's list of mounts and specs of a thousand
// devices.
const maxFile = 16 << 20

// optional reads a file that may be missing. It records a file that exists but cannot be read as unseen.
func (f *facts) optional(name string) (string, bool) {
	data, err := hostfs.ReadFile(f.Root, name, maxFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.addUnseen(name, err)
		}
		return "", false
	}
	return string(data), true
}

// list lists a directory that may be missing.
func (f *facts) list(name string) []fs.DirEntry {
	entries, err := hostfs.ReadDir(f.Root, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.addUnseen(name, err)
	}
	return entries
}

// sysHas reports whether sysfs has a path.
func (f *facts) sysHas(name string) bool {
	_, err := fs.Stat(f.Sys, name)
	return err == nil
}

// sysRead reads an attribute of sysfs without its newline. It returns "" on an error.
func (f *facts) sysRead(name string) string {
	data, err := fs.ReadFile(f.Sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// firstLine returns the first line of a text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
