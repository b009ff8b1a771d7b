package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// facts holds what all checks need. Diagnose gathers it once.
type facts struct {
	host    *reader
	snap    *rdma.Snapshot
	modules *modules
	dirs    []string // of specs
	specs   specFiles
	whole   bool // all specs could be read
	daemons []daemon
	engines []engine
	looks   looks
}

// checks run in this order. Each adds its findings to an empty list.
var checks = []func(*facts, *findings){
	checkDrivers, checkModules, checkDevices, checkNetns, checkRDMACgroup,
	checkNodes, checkPSM,
	checkPorts, checkGUIDs, checkRoCEGIDs,
	checkMemlock, checkUnits, checkUlimits,
	checkHooks, checkUsable,
	checkSpecs,
	checkMADNodes,
	checkEngines, checkSELinux, checkBoot,
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
	host := &reader{Host: h}
	f := &facts{
		host: host, snap: snap, modules: readModules(host), daemons: findDaemons(host), engines: findEngines(ctx, host),
	}
	f.dirs = dirsOf(f.engines)
	f.specs, f.whole = readSpecs(host, f.dirs)
	f.looks = lookIntoContainers(ctx, host, snap, f.specs)
	var all findings
	for _, check := range checks {
		var out findings
		before := len(host.unseen)
		check(f, &out)
		if len(host.unseen) > before { // "ok" is a look that saw it all
			out = out.withoutOK()
		}
		all = append(all, out...)
	}
	slices.SortFunc(host.unseen, func(a, b Unseen) int { return strings.Compare(a.What, b.What) })
	r := newReport(all, slices.Compact(host.unseen))
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

func (l findings) withoutOK() findings {
	return slices.DeleteFunc(l, func(f Finding) bool { return f.Severity == OK })
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
	return found(id, s, text.Count(len(subjects), noun)+rest).about(subjects...)
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

// fix sets the commands that change something, one per line.
func (f Finding) fix(commands ...string) Finding {
	f.Fix = strings.Join(commands, "\n")
	return f
}

// look sets the commands that only show something, one per line.
func (f Finding) look(commands ...string) Finding {
	f.Look = strings.Join(commands, "\n")
	return f
}

// firstLine returns the first line of a text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
