// Package record is what the hook reports of a container: data, which the hook writes and the driver and cdi-gen doctor
// read. It acts on nothing.
package record

import (
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Version is the version of the report's format. From the first release on, it changes if a field is removed or gets
// another meaning. New fields do not change it.
const Version = 1

// Report is the content of a report's file, one line of JSON. Sizes and counts are strings: see
// [args.Size.MarshalText].
type Report struct {
	ReportVersion int       `json:"reportVersion"`
	HookVersion   string    `json:"hookVersion"`
	ID            string    `json:"id"`                  // container ID
	PID           int       `json:"pid"`                 // of the container's init process, 0 if unknown
	Status        string    `json:"status"`              // as in the OCI state
	Time          time.Time `json:"time"`                // UTC, to the second
	Claim         string    `json:"claim,omitempty"`     // of --claim
	PodUID        string    `json:"podUID,omitempty"`    // "" if unknown
	Container     string    `json:"container,omitempty"` // its name in the pod, "" if unknown
	// HostNetwork reports, with --claim, whether the container is in the host's network namespace. It is nil if unknown.
	HostNetwork *bool `json:"hostNetwork,omitempty"`
	// The result of --memlock.
	Want    *args.Size `json:"want,omitempty"`
	Outcome Outcome    `json:"outcome"`
	Message string     `json:"message"`          // the outcome in words, with numbers
	Before  *Rlimit    `json:"before,omitempty"` // nil if it could not be read
	After   *Rlimit    `json:"after,omitempty"`  // nil if Before is
	// Limits are the results of --limit.
	Limits   []DeviceLimit `json:"limits,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
	// Checks say what the container can use of its HCAs. A report without any has not been checked.
	Checks []finding.Finding `json:"checks,omitempty"`
}

// Outcome is the result for a limit, as one word in the report.
type Outcome string

// The outcomes.
const (
	Raised  Outcome = "raised"  // the soft limit is now as requested
	Already Outcome = "already" // the limit was already as requested, or higher
	Clamped Outcome = "clamped" // the soft limit is now the hard limit, which is lower than requested
	Denied  Outcome = "denied"  // not permitted; the limit is unchanged
	Skipped Outcome = "skipped" // nothing to do: no process, or no --memlock
	Failed  Outcome = "failed"  // another error, such as a process that is gone

	Limited    Outcome = "limited"   // a device's limit is now as requested
	Unenforced Outcome = "unlimited" // the kernel cannot limit the device for this container
)

// Well reports whether a limit is as requested.
func (o Outcome) Well() bool {
	return o == Raised || o == Already || o == Skipped || o == Limited
}

// Rlimit is the soft and the hard limit of locked memory. The kernel enforces the soft limit. A process may raise its
// soft limit up to the hard limit.
type Rlimit struct {
	Soft args.Size `json:"soft"`
	Hard args.Size `json:"hard"`
}

// String is for people.
func (l Rlimit) String() string {
	return l.Soft.String() + " (hard limit " + l.Hard.String() + ")"
}

// DeviceLimit is the result of one --limit.
type DeviceLimit struct {
	Device  string      `json:"device"`
	Want    args.Wanted `json:"want"`
	Outcome Outcome     `json:"outcome"`
	Message string      `json:"message"`          // the outcome in words, with numbers
	Before  *Resources  `json:"before,omitempty"` // nil if it could not be read
	After   *Resources  `json:"after,omitempty"`  // nil if Before is
}

// Resources are the counts of the rdma controller for a device.
type Resources struct {
	Handles args.Count `json:"handles"` // hca_handle: open contexts
	Objects args.Count `json:"objects"` // hca_object: verbs objects, such as queue pairs
}

// String is for people.
func (r Resources) String() string {
	return "handles " + r.Handles.String() + ", objects " + r.Objects.String()
}
