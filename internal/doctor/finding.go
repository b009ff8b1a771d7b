package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a finding is.
type Severity string

// The severities, worst first.
const (
	Error   Severity = "error"   // containers fail, or get what they must not
	Warning Severity = "warning" // some programs fail, or fall back to something slower
	Info    Severity = "info"    // worth knowing
	OK      Severity = "ok"      // looked at, and well
)

// severities is the order of a report.
var severities = []Severity{Error, Warning, Info, OK}

func (s Severity) rank() int { return slices.Index(severities, s) }

// Finding is one answer.
type Finding struct {
	ID       ID       `json:"id"`
	Group    Group    `json:"group"`
	Severity Severity `json:"severity"`
	// Title says what was found, in one line.
	Title string `json:"title"`
	// Subjects are the devices, files or programs concerned.
	Subjects []string `json:"subjects,omitempty"`
	// Reason says why it matters, empty where all is well.
	Reason string `json:"reason,omitempty"`
	// Fix is a shell command, or several, one a line. Words in capitals stand for
	// what only the reader knows.
	Fix string `json:"fix,omitempty"`
}

// Unseen is something that was not looked at.
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
}

// String is the summary in one line.
func (s Summary) String() string {
	return fmt.Sprintf("%s, %s, %s, %d ok", plural(s.Errors, "error"), plural(s.Warnings, "warning"), plural(s.Infos, "note"), s.OK)
}

// Report is the answer to all questions.
type Report struct {
	Summary Summary `json:"summary"`
	// Findings are sorted: worst first, then in the order of the catalogue.
	Findings []Finding `json:"findings"`
	Unseen   []Unseen  `json:"unseen,omitempty"`
}

// Worst is the severity of the worst finding, OK when there is none.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return OK
	}
	return r.Findings[0].Severity
}

// newReport sorts findings and counts them.
func newReport(findings []Finding, unseen []Unseen) *Report {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(position(a.ID), position(b.ID)),
			strings.Compare(a.Title, b.Title))
	})
	r := &Report{Findings: append([]Finding{}, findings...), Unseen: unseen} // a list also in JSON
	for _, f := range findings {
		switch f.Severity {
		case Error:
			r.Summary.Errors++
		case Warning:
			r.Summary.Warnings++
		case Info:
			r.Summary.Infos++
		case OK:
			r.Summary.OK++
		}
	}
	return r
}

// plural writes a number with its noun: "1 port", "2 ports".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
