package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// facts holds what all checks need. Diagnose gathers it once.
type facts struct {
	*Host
	root    rootFS
	snap    *rdma.Snapshot
	specs   []specFile
	daemons []daemon
	engines []engine
	unseen  []Unseen
}

// checks run in this order. Each returns its findings.
var checks = []func(*facts) []Finding{
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
	f := &facts{Host: h, root: rootFS{h.Root}, snap: snap}
	f.specs = readSpecs(f)
	f.daemons = findDaemons(f)
	f.engines = findEngines(ctx, f)
	var findings []Finding
	for _, c := range checks {
		findings = append(findings, c(f)...)
	}
	slices.SortFunc(f.unseen, func(a, b Unseen) int { return strings.Compare(a.What, b.What) })
	return newReport(findings, slices.Compact(f.unseen)), ctx.Err()
}

// found makes a finding. Its group comes from the catalogue.
func found(id ID, s Severity, title string) Finding {
	_, group := lookup(id)
	return Finding{ID: id, Group: group, Severity: s, Title: title}
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

// optional reads a file that may be missing. It records a file that exists but cannot be read as unseen.
func (f *facts) optional(name string) (string, bool) {
	data, err := f.root.ReadFile(name)
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
	entries, err := f.root.ReadDir(name)
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
