package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Acknowledge returns the report with the severity Acknowledged for the errors and warnings that the administrator
// knows. An entry is the ID of a finding, or ID=SUBJECT for one of its subjects. A finding with a further subject keeps
// its severity: nothing new hides behind something known.
func (r *Report) Acknowledge(entries []string) *Report {
	findings := slices.Clone(r.Findings)
	for i := range findings {
		if f := &findings[i]; (f.Severity == Error || f.Severity == Warning) && f.acknowledged(entries) {
			f.Severity = Acknowledged
		}
	}
	out := newReport(findings, r.Unseen)
	out.Runtimes = r.Runtimes
	return out
}

// acknowledged reports whether entries cover a finding.
func (f *Finding) acknowledged(entries []string) bool {
	open := func(subject string) bool { return !slices.Contains(entries, string(f.ID)+"="+subject) }
	return slices.Contains(entries, string(f.ID)) || len(f.Subjects) > 0 && !slices.ContainsFunc(f.Subjects, open)
}

// CheckAcknowledged returns an error for an entry that can match nothing: it would have no effect, in silence.
func CheckAcknowledged(entries []string) error {
	for _, e := range entries {
		id, subject, cut := strings.Cut(e, "=")
		known := slices.ContainsFunc(catalog, func(c group) bool { return slices.Contains(c.ids, ID(id)) })
		if !known || cut && subject == "" {
			return fmt.Errorf("%q: want the ID of a finding, or ID=SUBJECT, as doctor shows them", e)
		}
	}
	return nil
}
