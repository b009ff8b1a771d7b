package why

import (
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// problem is a finding about something that keeps the pod from running, or from running well. Its subjects are
// claim/NAME, request/NAME, device/NAME and node/NAME. One without a name is left out.
func problem(id, message, remedy string, subjects ...string) finding.Finding {
	unnamed := func(s string) bool { return strings.HasSuffix(s, "/") }
	return finding.Finding{
		ID: id, Severity: finding.Error, Subjects: slices.DeleteFunc(subjects, unnamed), Message: message, Remedy: remedy,
	}
}

// note is a finding about something that passes by itself, or does no harm.
func note(id, message, remedy string, subjects ...string) finding.Finding {
	f := problem(id, message, remedy, subjects...)
	f.Severity = finding.Info
	return f
}

// unread is a finding about something that could not be read. Its subject is the resource.
func unread(message string, kind model.Kind) finding.Finding {
	resource, _, _ := strings.Cut(string(kind), " ")
	return finding.Finding{
		ID: "Unread", Severity: finding.NotSeen, Subjects: []string{resource}, Message: message,
		Remedy: "get the right to list " + resource + " (docs/kubectl-rdma.md), and ask again",
	}
}

// foremost returns the first known problem, or else the first finding, nil if there is none.
func foremost(found []finding.Finding) *finding.Finding {
	known := func(f finding.Finding) bool { return f.Severity == finding.Error && f.ID != "WarningEvent" }
	if i := slices.IndexFunc(found, known); i >= 0 {
		return &found[i]
	}
	if len(found) > 0 {
		return &found[0]
	}
	return nil
}

func has(found []finding.Finding, id string) bool {
	return slices.ContainsFunc(found, func(f finding.Finding) bool { return f.ID == id })
}
