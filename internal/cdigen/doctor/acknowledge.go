package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Acknowledge returns the report with the severity Acknowledged for the errors and warnings that the administrator
// knows. An entry is the ID of a finding, or ID=SUBJECT for one of its subjects, where a slot stands for the kernel's
// name and an HCA for its ports. A finding with a further subject keeps its severity: nothing new hides behind
// something known.
func (r *Report) Acknowledge(entries []string) *Report {
	list := slices.Clone(r.Findings)
	for i := range list {
		f := &list[i]
		known := func(alias string) bool { return slices.Contains(entries, f.ID+"="+alias) }
		open := func(subject string) bool { return !known(subject) && !slices.ContainsFunc(r.aliases[subject], known) }
		all := slices.Contains(entries, f.ID) || len(f.Subjects) > 0 && !slices.ContainsFunc(f.Subjects, open)
		if all && (f.Severity == finding.Error || f.Severity == finding.Warning) {
			f.Severity = finding.Acknowledged
		}
	}
	out := newReport(list)
	out.Runtimes, out.SpecDirs, out.aliases = r.Runtimes, r.SpecDirs, r.aliases
	return out
}

// aliasesOf returns the ways to write each HCA and each port: with the kernel's name, with the slot, or as the HCA.
func aliasesOf(hcas []rdma.HCA) map[string][]string {
	aliases := map[string][]string{}
	for i := range hcas {
		h := &hcas[i]
		aliases[h.IBDev] = []string{h.IBDev, h.Name}
		for p := range h.OwnPorts() {
			ref := portRef{h, p}.String()
			aliases[ref] = []string{ref, h.IBDev, h.Name, h.Name + strings.TrimPrefix(ref, h.IBDev)}
		}
	}
	return aliases
}

// WithoutEffect returns the entries whose subject is in no finding, and is no HCA or port that was found. The fault of
// one that was found may be repaired.
func (r *Report) WithoutEffect(entries []string) []string {
	found := slices.Concat(slices.Collect(maps.Values(r.aliases))...)
	for _, f := range r.Findings {
		found = append(found, f.Subjects...)
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e string) bool {
		_, subject, cut := strings.Cut(e, "=")
		return !cut || slices.Contains(found, subject)
	})
}

// CheckAcknowledged returns an error for an entry that can match nothing on any host.
func CheckAcknowledged(entries []string) error {
	var ids []string
	for _, k := range catalogue.Kinds {
		ids = append(ids, k.ID)
	}
	for _, e := range entries {
		id, subject, cut := strings.Cut(e, "=")
		if !slices.Contains(ids, id) {
			return fmt.Errorf("%q: want the ID of a finding, or ID=SUBJECT, as doctor shows them%s", e,
				cli.Suggest(id, ids))
		}
		if cut && subject == "" {
			return fmt.Errorf("%q: no subject follows the =: want %s, or %[2]s=SUBJECT as doctor shows it", e, id)
		}
	}
	return nil
}
