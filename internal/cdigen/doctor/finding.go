package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Severity is the severity of a finding.
type Severity string

// The severities, worst first.
const (
	Error   Severity = "error"   // containers fail, or get access that they must not have
	Warning Severity = "warning" // some programs fail, or fall back to something slower
	Info    Severity = "info"    // worth knowing
	OK      Severity = "ok"      // checked, nothing wrong

	// Acknowledged is a finding that the administrator knows, and that is not to be a problem any more.
	Acknowledged Severity = "acknowledged"
)

// severities are in the order of a report.
var severities = []Severity{Error, Warning, Acknowledged, Info, OK}

func (s Severity) rank() int { return slices.Index(severities, s) }

// Finding is the result of a check.
type Finding struct {
	ID       ID       `json:"id"`
	Group    string   `json:"group"` // the subject of its checks
	Severity Severity `json:"severity"`
	// Title says what was found, in one line.
	Title string `json:"title"`
	// Subjects are the devices, files or programs that the finding is about.
	Subjects []string `json:"subjects,omitempty"`
	// Reason says why the finding matters. It is empty for OK.
	Reason string `json:"reason,omitempty"`
	// Fix has one shell command per line, which changes the host; none reboots it. Words in capitals are placeholders that
	// the reader fills in.
	Fix string `json:"fix,omitempty"`
	// Look has commands that change nothing and show more, one per line.
	Look string `json:"look,omitempty"`
}

// Unseen is something that could not be checked.
type Unseen struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// Summary counts findings.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	OK       int `json:"ok"`

	Acknowledged int `json:"acknowledged,omitempty"`
}

// String is the summary in one line.
func (s Summary) String() string {
	line := fmt.Sprintf("%s, %s, %s, %d ok",
		text.Count(s.Errors, "error"), text.Count(s.Warnings, "warning"), text.Count(s.Infos, "note"), s.OK)
	if s.Acknowledged > 0 {
		line += fmt.Sprintf(", %d acknowledged", s.Acknowledged)
	}
	return line
}

// Report has the findings of all checks.
type Report struct {
	Summary Summary `json:"summary"`
	// Findings are sorted by severity, worst first, then by the order of the catalogue.
	Findings []Finding `json:"findings"`
	Unseen   []Unseen  `json:"unseen,omitempty"`

	// Runtimes are the installed container runtimes with their versions. Tables and JSON leave them out.
	Runtimes []string `json:"-"`
}

// Worst returns the severity of the worst finding, OK if there is no finding.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return OK
	}
	return r.Findings[0].Severity
}

// newReport sorts findings and counts them.
func newReport(findings []Finding, unseen []Unseen) *Report {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		first, _ := lookup(a.ID)
		second, _ := lookup(b.ID)
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(first, second),
			strings.Compare(a.Title, b.Title))
	})
	r := &Report{Findings: append([]Finding{}, findings...), Unseen: unseen} // never nil: JSON must have a list
	count := map[Severity]*int{
		Error: &r.Summary.Errors, Warning: &r.Summary.Warnings, Info: &r.Summary.Infos, OK: &r.Summary.OK,
		Acknowledged: &r.Summary.Acknowledged,
	}
	for _, f := range findings {
		*count[f.Severity]++
	}
	return r
}

// ID names a kind of finding. It must not change, because scripts filter by it.
type ID string

// lookup returns the place of a finding in a report, and its group. Every finding of a check must be in the catalogue.
func lookup(id ID) (position int, group string) {
	for _, c := range catalog {
		if i := slices.Index(c.ids, id); i >= 0 {
			return position + i, c.name
		}
		position += len(c.ids)
	}
	panic(fmt.Sprintf("doctor: finding %q is not in the catalogue", id))
}

// group has the findings of one subject.
type group struct {
	name string
	ids  []ID
}

// catalog has the findings of each group, in the order of a report. docs/doctor.md says what each one means, which
// severities it can have and what to do.
var catalog = []group{
	{"kernel", []ID{"driver-missing", "hca-lost", "no-hca", "uverbs-module", "rdma-cm-module", "netns-exclusive",
		"hca-unreadable", "hca-unusable", "vpd-unreadable", "umad-module", "rdma-cgroup-missing", "modules-ok", "netns-ok",
		"rdma-cgroup-ok"}},
	{"nodes", []ID{"node-missing", "node-wrong-device", "node-mode", "node-stale", "psm-node", "nodes-ok"}},
	{"ports", []ID{"no-active-port", "port-down", "port-init", "guid-zero", "roce-no-gid", "ports-ok", "roce-gids-ok"}},
	{"memlock", []ID{"memlock-low", "memlock-clamped", "memlock-restart", "memlock-configured", "memlock-by-hook",
		"memlock-ok"}},
	{"hook", []ID{"hook-missing", "hook-not-executable", "hook-noexec", "hook-replaceable", "hook-arch", "hook-dynamic",
		"hook-absent", "container-unusable", "hook-ok", "container-ok"}},
	{"specs", []ID{"spec-dir", "spec-invalid", "spec-twins", "spec-conflict", "spec-stale", "spec-wrong-device",
		"spec-none", "spec-incomplete", "spec-extension", "spec-mode", "spec-shadowed", "specs-ok"}},
	{"privilege", []ID{"mad-node-open", "spec-gives-mad", "spec-gives-all", "privilege-ok"}},
	{"runtimes", []ID{"runtime-too-old", "runtime-dirs", "runtime-no-cdi", "runtime-cdi-off", "selinux-devices",
		"unit-order", "runtime-unknown", "runtime-none", "runtime-ok"}},
	{"rdmamap", []ID{"rdmamap-differs", "rdmamap-agrees"}},
	{"gpu", []ID{"gpu-peer-missing", "gpu-peer-ok"}},
}
