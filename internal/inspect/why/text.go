package why

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// WriteText writes an answer as text, most important first. With all set, it names every device and
// claim. Otherwise it shortens long lists.
func (a *Answer) WriteText(w io.Writer, all bool) error {
	t := &textWriter{out: bufio.NewWriter(text.Writer(w)), most: 4, unseen: a.unseen}
	if all {
		t.most = 1 << 20
	}
	t.headline(a)
	for i := range a.Claims {
		t.claim(&a.Claims[i])
	}
	t.findings(a)
	t.remedies(a)
	if a.Scheduler != "" && a.Verdict != VerdictDone {
		t.printf("\nThe scheduler says: %s\n", text.Foreign(a.Scheduler))
	}
	if len(a.Unread) > 0 {
		t.printf("\nNot known:\n")
		for _, u := range a.Unread {
			t.printf("  - %s\n", u)
		}
	}
	return t.out.Flush()
}

type textWriter struct {
	out  *bufio.Writer
	most int // maximum number of names in a list
	// unseen follows what would be right if everything had been read.
	unseen string
}

// printf is the only way to write: names and messages of others break no line.
func (t *textWriter) printf(format string, args ...any) { text.Fprintf(t.out, format, args...) }

func (t *textWriter) headline(a *Answer) {
	where := ""
	if a.Node != "" {
		where = " on node " + a.Node
	}
	of := ""
	if a.Of != "" {
		of = " of " + a.Of
	}
	t.printf("Pod %s/%s%s is %s%s: %s.\n",
		a.Namespace, a.Pod, of, a.Phase, where, strings.TrimSuffix(a.Summary, "."))
}

func (t *textWriter) claim(c *ClaimAnswer) {
	name := "Claim " + c.Name
	switch {
	case c.Name == "":
		name = "Extended resources " + c.In
	case c.In != c.Name:
		name += " (" + c.In + " in the pod)"
	}
	t.printf("\n%s is %s", name, c.State)
	if len(c.Devices) > 0 {
		t.printf(": %s", model.List(c.Devices, "", t.most))
	}
	t.printf("\n")
	for i := range c.Uses {
		t.use(&c.Uses[i])
	}
	for _, r := range c.Requests {
		t.request(r)
	}
}

func (t *textWriter) request(r *model.RequestReport) {
	wants := fmt.Sprint(r.Count)
	if r.Count == 0 {
		wants = "all"
	}
	t.printf("  Request %s wants %s of %s: ", r.Name, wants, r.Class)
	switch {
	case r.Error != "":
		t.printf("%s\n", r.Error)
		return
	case r.Devices == 0:
		t.printf("there are no such devices\n")
		return
	}
	t.printf("%s on %s\n", text.Count(r.Devices, "device"), text.Count(r.Nodes, "node"))
	for _, ruling := range r.RuledOut {
		t.ruling(ruling)
	}
	free := 0
	for _, devices := range r.Free {
		free += len(devices)
	}
	if free > 0 {
		node, n := r.Best()
		t.printf("  %5d  could be had%s; most of them, %d, on node %s\n", free, t.unseen, n, node)
	}
}

// rulingWords are the texts of the reasons, with the detail.
var rulingWords = map[model.Reason]string{
	model.RuledNode:     "on nodes where the pod cannot go: %s",
	model.RuledSelector: "ruled out by %s",
	model.RuledPool:     "in a pool that is invalid%s",
	model.RuledTaint:    "tainted %s",
	model.RuledCapacity: "without room for %s",
	model.RuledCounters: "excluded by a device with the same counters (%s)",
}

func (t *textWriter) ruling(r *model.Ruling) {
	words := "allocated"
	if r.Reason != model.RuledClaim {
		words = fmt.Sprintf(rulingWords[r.Reason], r.Detail)
	}
	if r.Reason == model.RuledTaint {
		words += ": " + taintRemedy(r.Taints)
	}
	t.printf("  %5d  %s\n", len(r.Devices), words)
	if claims := t.claims(r); claims != "" {
		t.printf("         claims: %s\n", claims)
	}
	if r.Reason == model.RuledTaint || t.most > 4 {
		t.printf("         devices: %s\n", model.List(r.Devices, "", t.most))
	}
}

// claims lists the claims of a ruling. It adds the number of devices of a claim with more than
// one.
func (t *textWriter) claims(r *model.Ruling) string {
	var names []string
	for _, claim := range r.Holders() {
		name := model.ClaimName(claim)
		if n := r.Held[claim]; r.Reason == model.RuledClaim && n > 1 {
			name += fmt.Sprintf(" (%d)", n)
		}
		names = append(names, name)
	}
	return model.List(names, "", t.most)
}

// findings writes the findings that are not in the headline and the requests.
func (t *textWriter) findings(a *Answer) {
	short := func(f finding.Finding) bool { return f.ID == notEnoughDevices.ID }
	found := slices.DeleteFunc(slices.Clone(a.Findings), short)
	if len(found) > 0 {
		t.printf("\nFound:\n")
	}
	for _, f := range found {
		t.printf("  - %s\n", f.Message)
		if f.Remedy != "" {
			t.printf("    %s\n", f.Remedy)
		}
	}
}

func (t *textWriter) remedies(a *Answer) {
	if a.Verdict != VerdictUnallocated {
		return
	}
	if len(a.Remedies) == 0 {
		if a.answers > 1 && !has(a.Findings, neverFits) && !has(a.Findings, classEmpty) && !has(a.Findings, noDevices) {
			t.printf("\nNone of the changes that were tried makes it fit%s.\n", t.unseen)
		}
		return
	}
	t.printf("\nIt would fit, each of these alone%s:\n", t.unseen)
	for i, r := range a.Remedies {
		if i == t.most*2 {
			t.printf("  - and %d more: see -o wide\n", len(a.Remedies)-i)
			break
		}
		t.printf("  - if %s (on node %s)\n", r.What, r.Node)
	}
}

// use writes what the containers have of a device.
func (t *textWriter) use(u *DeviceUse) {
	var parts []string
	if len(u.HCAs) > 0 {
		parts = append(parts, model.List(u.HCAs, "", t.most))
	}
	if u.Interface != "" {
		parts = append(parts, "interface "+u.Interface)
	}
	if len(u.Addresses) > 0 {
		parts = append(parts, model.List(u.Addresses, "", t.most))
	}
	if parts == nil {
		return
	}
	t.printf("  %s: %s\n", u.Device, strings.Join(parts, ", "))
	if len(u.GIDs) > 0 {
		t.printf("    GIDs: %s\n", model.List(u.GIDs, "", t.most))
	}
	if u.Usable == metav1.ConditionTrue {
		t.printf("    %s\n", text.Foreign(u.Checks))
	}
}
