package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// catalogue has the kinds of findings. docs/doctor.md says what each one means and what to do. Each declares what
// it looks at beside its check.
var catalogue finding.Catalogue

// notSeen is what could not be looked at.
var notSeen = catalogue.Kind("not-seen")

// Report has the findings of all checks.
type Report struct {
	Summary text.Summary `json:"summary"`
	// Findings are sorted by severity, worst first.
	Findings []finding.Finding `json:"findings"`

	// Runtimes are the installed container runtimes with their versions, and SpecDirs the directories whose specs were
	// read. Tables and JSON leave them out.
	Runtimes, SpecDirs []string `json:"-"`

	aliases map[string][]string // of the names of HCAs and ports
}

// newReport sorts findings and counts them. It removes what is good of kinds whose looks failed.
func newReport(list []finding.Finding) *Report {
	list = catalogue.Settle(append([]finding.Finding{}, list...)) // never nil: JSON must have a list
	return &Report{Summary: text.Summarize(list), Findings: list}
}

// facts holds what all checks need. Diagnose gathers it once.
type facts struct {
	host    *reader
	snap    *rdma.Snapshot
	modules *modules
	pci     []pciFunction
	dirs    []string // of specs
	specs   specFiles
	daemons []daemon
	engines []engine
	looks   looks
}

// checks run in this order. Each adds its findings to an empty list. The checks of a line are in one file check_*.go.
var checks = []func(*facts, *findings){
	checkFunctions,
	checkModules, checkDevices, checkNetns, checkRDMACgroup,
	checkNodes, checkPSM,
	checkPorts, checkGUIDs, checkRoCEGIDs,
	checkMemlock,
	checkHooks,
	checkUsable,
	checkSpecs,
	checkMADNodes,
	checkEngines,
	checkSELinux,
	checkBoot,
	checkRdmamap,
	checkGPUs,
}

// Diagnose checks a host. It fails only if it cannot read the host's sysfs at all. The report lists everything else
// that could not be checked as not seen.
func Diagnose(ctx context.Context, h *Host) (*Report, error) {
	snap, err := rdma.Discover(h.Sys)
	if err != nil {
		return nil, fmt.Errorf("diagnose host: %w", err)
	}
	host := &reader{Host: h, unseen: unseen{}}
	f := &facts{
		host: host, snap: snap, modules: readModules(host), pci: host.pciFunctions(), daemons: findDaemons(host),
		engines: findEngines(ctx, host),
	}
	f.dirs = dirsOf(f.engines)
	f.specs = newSpecFiles(cdi.ReadDirs(h.Root, f.dirs...), host.unseen)
	f.looks = lookIntoContainers(ctx, host, snap, f.specs)
	var all findings
	for _, check := range checks {
		var out findings // most checks say what is good if they have found nothing else
		check(f, &out)
		all = append(all, out...)
	}
	r := newReport(append(all, host.unseen.findings(h.UID)...))
	r.SpecDirs, r.aliases = f.dirs, aliasesOf(snap.HCAs)
	for _, e := range f.engines {
		r.Runtimes = append(r.Runtimes, e.runtime+" "+e.version)
	}
	return r, ctx.Err()
}

// findings is a list of findings.
type findings []finding.Finding

// add adds findings, except those without an ID.
func (l *findings) add(list ...finding.Finding) {
	for _, f := range list {
		if f.ID != "" {
			*l = append(*l, f)
		}
	}
}

// troubled reports whether there is an error or a warning.
func (l findings) troubled() bool {
	s := text.Summarize(l)
	return s[finding.Error]+s[finding.Warning] > 0
}

// foundIn makes a finding about subjects. Its title is their number, with the noun for one of them, and the rest. It
// has no ID if there is no subject.
func foundIn(subjects []string, kind *finding.Kind, s finding.Severity, noun, rest string) finding.Finding {
	if len(subjects) == 0 {
		return finding.Finding{}
	}
	return kind.Found(s, text.Count(len(subjects), noun)+rest).About(subjects...)
}

// firstLine returns the first line of a text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
