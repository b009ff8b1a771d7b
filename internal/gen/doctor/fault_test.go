package doctor

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// fault is something wrong, planted into a healthy host, and what is said of it.
type fault struct {
	name     string
	machine  string // default hgx-h100
	plant    func(*fake)
	id       ID
	severity Severity
	subject  string // one of the subjects contains it
	reason   string // the reason contains it
	fix      string // the commands contain it
	title    string // the title contains it
	also     []ID   // other errors and warnings that follow from it
}

// faults are all of them, by the file of their checks.
func faults() []fault {
	return slices.Concat(kernelFaults, functionFaults, nodeFaults, portFaults, memlockFaults, hookFaults, specFaults,
		privilegeFaults, engineFaults, betweenFaults, otherFaults)
}

// TestFaults: each fault is found, and nothing else. Each finding of such a host is whole.
func TestFaults(t *testing.T) {
	seen := map[ID][]Severity{}
	for _, c := range faults() {
		t.Run(c.name, func(t *testing.T) {
			if c.machine == "" {
				c.machine = "hgx-h100"
			}
			f := newFake(t, c.machine)
			c.plant(f)
			r := f.diagnose()
			c.check(t, r)
			for _, finding := range r.Findings {
				checkWhole(t, finding)
				seen[finding.ID] = append(seen[finding.ID], finding.Severity)
			}
		})
	}
	entries := documented(t)
	for _, e := range entries {
		for _, s := range e.severities {
			test.True(t, slices.Contains(seen[e.id], s), test.Sprintf("no fault is %s with severity %s", e.id, s))
		}
	}
	for id, severities := range seen {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.id == id })
		for _, s := range severities {
			if i < 0 || !slices.Contains(entries[i].severities, s) {
				t.Errorf("docs/doctor.md has no %s with severity %q", id, s)
			}
		}
	}
}

func (c fault) check(t *testing.T, r *Report) {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool {
		return f.ID == c.id && f.Severity == c.severity && strings.Contains(f.Title, c.title)
	})
	must.GreaterEq(t, 0, i, must.Sprintf("no %s %s with title %q in %s", c.severity, c.id, c.title, render(t, r)))
	f := r.Findings[i]
	if c.subject != "" && !strings.Contains(strings.Join(f.Subjects, "\n"), c.subject) {
		t.Errorf("subjects %q, want %q", f.Subjects, c.subject)
	}
	for _, part := range []struct{ what, got, want string }{{"reason", f.Reason, c.reason}, {"fix", f.Fix + "\n" + f.Look, c.fix}} {
		test.StrContains(t, part.got, part.want, test.Sprintf("%s", part.what))
	}
	want := slices.Clone(c.also)
	if c.severity == Error || c.severity == Warning {
		want = append(want, c.id)
	}
	if diff := cmp.Diff(unique(want), troubles(r)); diff != "" {
		t.Errorf("errors and warnings (-want +got):\n%s\n%s", diff, render(t, r))
	}
}

// troubles lists the IDs of errors and warnings, each once.
func troubles(r *Report) []ID {
	var ids []ID
	for _, f := range r.Findings {
		if f.Severity == Error || f.Severity == Warning {
			ids = append(ids, f.ID)
		}
	}
	return unique(ids)
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	must.NoError(t, r.WriteText(&b, false))
	return b.String()
}

// checkWhole: a finding other than ok has a reason and a command; every finding is as the
// catalogue says.
// onlyLooks matches commands that change nothing.
var onlyLooks = regexp.MustCompile(`^(dmesg|grep|ibstat|sminfo|ethtool|file|diff|command|apt-cache|ip( -details)? link( show|$)|` +
	`rdma link( show|$)|systemctl status|cdi-gen (list|validate|devices)|podman inspect|find|\S+ --version)`)

func checkWhole(t *testing.T, f Finding) {
	t.Helper()
	if _, group := lookup(f.ID); f.Group != group {
		t.Errorf("%s has group %q, not that of the catalogue", f.ID, f.Group)
	}
	if f.Title == "" || f.Severity != OK && (f.Reason == "" || f.Fix+f.Look == "") {
		t.Errorf("%s has no title, reason or command: %+v", f.ID, f)
	}
	for command := range strings.Lines(f.Fix) {
		if onlyLooks.MatchString(command) || strings.Contains(command, "reboot") {
			t.Errorf("%s: the fix %q changes nothing, or reboots the host", f.ID, command)
		}
	}
}

// unhealthy are the machines that model trouble, or have no HCA, with what is wrong there.
var unhealthy = map[string][]ID{
	"dgx-h100-ib":     {"port-down"}, // a port without a cable
	"empty-classes":   {"no-hca"},
	"exclusive-netns": {"netns-exclusive"},
	"misbehaving":     {"guid-zero", "hca-unreadable", "port-init"},
	"none":            {"no-hca"},
	"roce-sriov":      {"guid-zero", "port-down"}, // a VF without an address
	"soft-pci":        {"netns-exclusive"},
}

// A healthy host of every other machine has nothing to complain about.
func TestHealthy(t *testing.T) {
	for _, machine := range fixture.Names() {
		r := newFake(t, machine).diagnose()
		if diff := cmp.Diff(unhealthy[machine], troubles(r)); diff != "" || len(r.Unseen) > 0 {
			t.Errorf("%s (-want +got): %s\n%s", machine, diff, render(t, r))
		}
	}
}
