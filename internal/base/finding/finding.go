// Package finding is the one form of what a check found, for all programs (a leaf: standard library only). Package text
// writes findings for people.
package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a finding is, and whether its check has seen what it speaks of.
type Severity string

// The severities, in the order of a report.
const (
	Error        Severity = "error"        // something fails, or has access that it must not have
	Warning      Severity = "warning"      // some programs fail, or fall back to something slower
	Acknowledged Severity = "acknowledged" // the administrator knows of it, and it is to be no problem any more
	Info         Severity = "info"         // worth knowing
	OK           Severity = "ok"           // looked at, nothing wrong
	NotSeen      Severity = "not-seen"     // the check could not look at what decides
)

// Severities are all severities, in the order of a report.
var Severities = []Severity{Error, Warning, Acknowledged, Info, OK, NotSeen}

// Bad reports whether something is wrong.
func (s Severity) Bad() bool { return s == Error || s == Warning }

// Finding is the result of a check.
type Finding struct {
	// ID names the kind of finding. It must not change, because scripts filter by it.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Subjects are what the finding is about: devices, files and programs by their names; in a cluster claim/NAME,
	// request/NAME, device/NAME and node/NAME.
	Subjects []string `json:"subjects,omitempty"`
	// Message says in its first line what was found. Further lines say why it matters.
	Message string `json:"message"`
	// Remedy says what to do: a sentence, or one shell command per line. A line that begins with # has a command that
	// changes nothing and shows more. Words in capitals are placeholders that the reader fills in.
	Remedy string `json:"remedy,omitempty"`
}

// String is the finding in one line.
func (f Finding) String() string {
	parts := []string{f.ID, f.Message, f.Remedy}
	if len(f.Subjects) > 0 {
		parts[0] += " of " + strings.Join(f.Subjects, ", ")
	}
	if f.Remedy == "" {
		parts = parts[:2]
	}
	return strings.Join(parts, ": ")
}

// About sets the subjects.
func (f Finding) About(subjects ...string) Finding {
	f.Subjects = subjects
	return f
}

// Because adds why the finding matters.
func (f Finding) Because(format string, args ...any) Finding {
	f.Message += "\n" + fmt.Sprintf(format, args...)
	return f
}

// Do adds what to do, which reports show behind "fix:": a sentence, or commands that change something.
func (f Finding) Do(commands ...string) Finding {
	f.Remedy = strings.TrimSpace(f.Remedy + "\n" + strings.Join(commands, "\n"))
	return f
}

// See adds commands that only show something. Reports have them behind "see:".
func (f Finding) See(commands ...string) Finding {
	for _, c := range commands {
		if c != "" {
			f = f.Do("# " + c)
		}
	}
	return f
}

// Kind is a kind of finding. Its findings come from Found.
type Kind struct {
	ID string
	// Looks are all that its checks read before they give the finding, as patterns of path.Match: paths of the host and
	// what is below them, or words. One that cannot be read is the subject of a finding of severity NotSeen.
	Looks []string
}

// Found makes a finding of a kind.
func (k *Kind) Found(s Severity, what string) Finding {
	return Finding{ID: k.ID, Severity: s, Message: what}
}

// Catalogue has the kinds of findings of one part of a program.
type Catalogue struct{ Kinds []*Kind }

// Kind adds a kind. A kind of findings that are good, or that name a cause, needs looks.
func (c *Catalogue) Kind(id string, looks ...string) *Kind {
	c.Kinds = append(c.Kinds, &Kind{ID: id, Looks: looks})
	return c.Kinds[len(c.Kinds)-1]
}

// Find returns the kind with an ID, nil if there is none.
func (c *Catalogue) Find(id string) *Kind {
	i := slices.IndexFunc(c.Kinds, func(k *Kind) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return c.Kinds[i]
}

// Settle sorts findings by severity. It removes each good finding whose kind has a look that failed.
func (c *Catalogue) Settle(list []Finding) []Finding {
	var missed []string
	for _, f := range list {
		if f.Severity == NotSeen {
			missed = append(missed, f.Subjects...)
		}
	}
	list = slices.DeleteFunc(list, func(f Finding) bool { return f.Severity == OK && c.Find(f.ID).needs(missed) })
	slices.SortStableFunc(list, func(a, b Finding) int {
		return slices.Index(Severities, a.Severity) - slices.Index(Severities, b.Severity)
	})
	return list
}
