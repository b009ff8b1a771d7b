// Package finding is the one form of what a check found, for all programs (a leaf: standard library only).
package finding

// Severity says how bad a finding is, and whether its check has seen what it speaks of.
type Severity string

// The severities, worst first.
const (
	Error        Severity = "error"        // something fails, or has access that it must not have
	Warning      Severity = "warning"      // some programs fail, or fall back to something slower
	NotSeen      Severity = "not-seen"     // the check could not look at what decides
	Acknowledged Severity = "acknowledged" // the administrator knows of it, and it is to be no problem any more
	Info         Severity = "info"         // worth knowing
	OK           Severity = "ok"           // looked at, nothing wrong
)

// Finding is the result of a check.
type Finding struct {
	// ID names the kind of finding. It must not change, because scripts filter by it.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Subjects are what the finding is about: devices, files and programs by their names, objects of Kubernetes as
	// kubectl writes them, node/n1.
	Subjects []string `json:"subjects,omitempty"`
	// Message says what was found, and on what.
	Message string `json:"message"`
	// Remedy says what to do. It is empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}
