package doctor

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// newCase makes the host of a case: the healthy one of its machine, with the case's files, and after its commands. It
// returns the report of the healthy host, too.
func newCase(t *testing.T, c *golden.Archive) (f *fake, healthy *Report) {
	t.Helper()
	title, commands, _ := strings.Cut(string(c.Comment), "\n")
	must.StrHasPrefix(t, "# ", title)
	machine := "hgx-h100"
	if rest, ok := strings.CutPrefix(commands, "machine "); ok {
		machine, commands, _ = strings.Cut(rest, "\n")
	}
	healthy = newFake(t, machine).diagnose()
	f = newFake(t, machine)
	for _, file := range c.Files {
		f.file(file.Name, string(file.Data))
	}
	for command := range strings.Lines(commands) {
		f.do(command)
	}
	return f, healthy
}

// TestFindings: each finding of the machines and of testdata/cases is whole, and documented with its severity.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*/*.txtar")
	must.NoError(t, err)
	seen := map[string][]finding.Severity{}
	diagnosed := func(t *testing.T, r *Report) {
		for _, f := range r.Findings {
			checkWhole(t, f)
			seen[f.ID] = append(seen[f.ID], f.Severity)
		}
	}
	for _, machine := range fixture.Names() {
		t.Run(machine, func(t *testing.T) { diagnosed(t, checkMachine(t, machine)) })
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/cases/"), ".txtar"), func(t *testing.T) {
			diagnosed(t, checkCase(t, file))
		})
	}
	entries := documented(t)
	for _, e := range entries {
		for _, s := range e.severities {
			shown := slices.Contains(seen[e.id], s) || e.id == specValid.ID // the scripts of cmd/cdi-gen show validate's
			test.True(t, shown, test.Sprintf("no case is %s with severity %s", e.id, s))
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

// checkCase: what a host has makes exactly the findings that its case wants. Its file "want" has every line that the
// report of the healthy host lacks, and every line that is gone.
func checkCase(t *testing.T, file string) *Report {
	t.Helper()
	c := golden.Open(t, file)
	f, healthy := newCase(t, c)
	r := f.diagnose()
	c.Bytes(t, "want", []byte(changes(t, healthy, r)))
	return r
}

// checkMachine: a healthy host of a machine has its golden report, and nothing to complain about. Without the kernel's
// tables of modules it has lost no HCA either.
func checkMachine(t *testing.T, machine string) *Report {
	t.Helper()
	f := newFake(t, machine)
	r := f.diagnose()
	golden.Bytes(t, "machines/"+machine+".txt", []byte(render(t, r)))
	test.Eq(t, unhealthy[machine], troubles(r), test.Sprint(render(t, r)))
	test.Eq(t, 0, r.Summary[finding.NotSeen])
	f.remove(modulesAlias)
	for _, id := range troubles(f.diagnose()) {
		test.False(t, id == "hca-lost" || id == "driver-missing", test.Sprint(id))
	}
	return r
}

// changes writes the lines in which a report differs from that of the healthy host.
func changes(t *testing.T, healthy, r *Report) string {
	t.Helper()
	unified := diff.Diff("healthy", []byte(render(t, healthy)), "case", []byte(render(t, r)))
	return string(regexp.MustCompile(`(?m)^(diff |--- |\+\+\+ |@@ | ).*\n`).ReplaceAll(unified, nil))
}

// troubles lists the IDs of errors and warnings, each once.
func troubles(r *Report) []string {
	var ids []string
	for _, f := range r.Findings {
		if f.Severity == finding.Error || f.Severity == finding.Warning {
			ids = append(ids, f.ID)
		}
	}
	return unique(ids)
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	must.NoError(t, text.WriteFindings(&b, r.Findings, false))
	return b.String()
}

// onlyLooks matches commands that change nothing.
var onlyLooks = regexp.MustCompile(`^(dmesg|grep|ibstat|sminfo|ethtool|file|diff|command|apt-cache|` +
	`ip( -details)? link( show|$)|rdma link( show|$)|systemctl status|` +
	`cdi-gen (list|validate|devices)|podman inspect|find|\S+ --version)`)

func checkWhole(t *testing.T, f finding.Finding) {
	t.Helper()
	if what, why, _ := strings.Cut(f.Message, "\n"); what == "" ||
		f.Severity != finding.OK && f.Severity != finding.NotSeen && (why == "" || f.Remedy == "") {
		t.Errorf("%s does not say what was found, why it matters or what to do: %+v", f.ID, f)
	}
	for command := range strings.Lines(f.Remedy) {
		if onlyLooks.MatchString(command) || strings.Contains(command, "reboot") {
			t.Errorf("%s: the fix %q changes nothing, or reboots the host", f.ID, command)
		}
	}
}

// unhealthy are the machines that model trouble, or have no HCA, with what is wrong there.
var unhealthy = map[string][]string{
	"dgx-h100-ib":     {"port-down"}, // a port without a cable
	"empty-classes":   {"no-hca"},
	"exclusive-netns": {"netns-exclusive"},
	"misbehaving":     {"guid-zero", "hca-unreadable", "port-init"},
	"none":            {"no-hca"},
	"roce-sriov":      {"guid-zero", "port-down"}, // a VF without an address
	"soft-pci":        {"netns-exclusive"},
}

// TestJSON: the JSON form is an interface for scripts.
func TestJSON(t *testing.T) {
	f, _ := newCase(t, golden.Open(t, "testdata/cases/other/bad-day.txtar"))
	golden.JSON(t, "bad-day", f.diagnose())
}

// TestDeterministic: the same host has the same report.
func TestDeterministic(t *testing.T) {
	f := newFake(t, "misbehaving")
	first := render(t, f.diagnose())
	for range 5 {
		must.Eq(t, first, render(t, f.diagnose()))
	}
}
