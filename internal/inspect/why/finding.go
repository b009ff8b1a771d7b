package why

import (
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Kinds are the kinds of causes, and of answers that say good. A look is a kind of object that decides.
// TestLooks lets each fail.
var Kinds finding.Catalogue

// The looks.
const (
	podRead       = "pod"
	claimsRead    = string(model.OwnClaims)
	allClaimsRead = string(model.Claims)
	classesRead   = string(model.Classes)
	slicesRead    = string(model.Slices)
	rulesRead     = string(model.Rules)
	nodesRead     = string(model.Nodes)
	driversRead   = string(model.Pods)
	templatesRead = string(model.Templates)
	eventsRead    = string(model.Events)
	namespaceRead = string(model.Namespace)
)

// Unread is the kind of a finding about something that could not be read.
var Unread = Kinds.Kind("Unread", podRead)

// problem is a finding about something that keeps the pod from running, or from running well. Its subjects are
// claim/NAME, request/NAME, device/NAME and node/NAME. One without a name is left out.
func problem(kind *finding.Kind, message, remedy string, subjects ...string) finding.Finding {
	unnamed := func(s string) bool { return strings.HasSuffix(s, "/") }
	return finding.Finding{
		ID: kind.ID, Severity: finding.Error, Subjects: slices.DeleteFunc(subjects, unnamed), Message: message,
		Remedy: remedy,
	}
}

// note is a finding about something that passes by itself, or does no harm.
func note(kind *finding.Kind, message, remedy string, subjects ...string) finding.Finding {
	f := problem(kind, message, remedy, subjects...)
	f.Severity = finding.Info
	return f
}

// unread is a finding about something that could not be read. Its subject is the resource.
func unread(message string, kind model.Kind) finding.Finding {
	resource, _, _ := strings.Cut(string(kind), " ")
	return finding.Finding{
		ID: Unread.ID, Severity: finding.NotSeen, Subjects: []string{resource}, Message: message,
		Remedy: "get the right to list " + resource + " (docs/kubectl-rdma.md), and ask again",
	}
}

// seen makes a finding one that was not seen if a look of its kind failed.
func seen(u model.UnreadKinds, found []finding.Finding) []finding.Finding {
	for i := range found {
		f := &found[i]
		if without := u.Unseen(Kinds.Find(f.ID).Looks...); without != "" && f.Severity != finding.NotSeen {
			f.Severity, f.Message = finding.NotSeen, f.Message+without
		}
	}
	return found
}

// foremost returns the first known problem, or else the first finding, nil if there is none.
func foremost(found []finding.Finding) *finding.Finding {
	known := func(f finding.Finding) bool { return f.Severity == finding.Error && f.ID != warningEvent.ID }
	if i := slices.IndexFunc(found, known); i >= 0 {
		return &found[i]
	}
	if len(found) > 0 {
		return &found[0]
	}
	return nil
}

func has(found []finding.Finding, kind *finding.Kind) bool {
	return slices.ContainsFunc(found, func(f finding.Finding) bool { return f.ID == kind.ID })
}
