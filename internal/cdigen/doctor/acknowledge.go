package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
)

// Acknowledge returns the report with the severity Acknowledged for the errors and warnings that the administrator
// knows. An entry is the ID of a finding, or ID=SUBJECT for one of its subjects. A finding with a further subject keeps
// its severity: nothing new hides behind something known.
func (r *Report) Acknowledge(entries []string) *Report {
	list := slices.Clone(r.Findings)
	for i := range list {
		f := &list[i]
		open := func(subject string) bool { return !slices.Contains(entries, f.ID+"="+subject) }
		known := slices.Contains(entries, f.ID) || len(f.Subjects) > 0 && !slices.ContainsFunc(f.Subjects, open)
		if known && (f.Severity == finding.Error || f.Severity == finding.Warning) {
			f.Severity = finding.Acknowledged
		}
	}
	out := newReport(list)
	out.Runtimes, out.SpecDirs = r.Runtimes, r.SpecDirs
	return out
}

// CheckAcknowledged returns an error for an entry that can match nothing: it would have no effect, in silence.
func CheckAcknowledged(entries []string) error {
	for _, e := range entries {
		id, subject, cut := strings.Cut(e, "=")
		if catalogue.Find(id) == nil || cut && subject == "" {
			return fmt.Errorf("%q: want the ID of a finding, or ID=SUBJECT, as doctor shows them", e)
		}
	}
	return nil
}
