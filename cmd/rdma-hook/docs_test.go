package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// What docs/hook.md shows must be what the hook takes and writes. Flags are in the reference page, which is generated.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/hook.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```json\n")
	if len(parts) != 3 {
		t.Fatalf("docs/hook.md has %d JSON examples, want the CDI hook and the report", len(parts)-1)
	}
	var spec struct{ Args []string }
	decodeExample(t, parts[1], &spec, false)
	if _, warnings, err := args.Parse(spec.Args[1:]); err != nil || len(warnings) > 0 {
		t.Errorf("arguments of the CDI hook: %q, %v", warnings, err)
	}
	var report record.Report
	decodeExample(t, parts[2], &report, true)
	if report.ReportVersion != record.Version || report.Outcome != record.Clamped || report.After.Soft != 8<<20 ||
		len(report.Limits) != 1 || report.Limits[0].After.Handles != 64 {
		t.Errorf("the report reads as %+v", report)
	}
	for _, o := range []record.Outcome{record.Raised, record.Already, record.Clamped, record.Denied, record.Skipped,
		record.Failed,
		record.Limited, record.Unenforced} {
		test.StrContains(t, string(text), "`"+string(o)+"`",
			test.Sprintf("docs/hook.md does not explain the outcome %q", o))
	}
}

func decodeExample(t *testing.T, block string, into any, strict bool) {
	t.Helper()
	example, _, _ := strings.Cut(block, "```")
	d := json.NewDecoder(strings.NewReader(example))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in the example\n%s", err, example)
	}
}

// A process may raise its soft limit to the hard one, which the hook never lowers. Every
// place that offers a limit of locked memory says so, or where to read it.
func TestDocsPromiseNoBound(t *testing.T) {
	for file, says := range map[string]string{
		"docs/hook.md":              "## Not a bound on locked memory",
		"docs/claims.md":            "(hook.md#not-a-bound-on-locked-memory)",
		"docs/security.md":          "(hook.md#not-a-bound-on-locked-memory)",
		"docs/cdi-gen.md":           "(hook.md#not-a-bound-on-locked-memory)",
		"docs/network.md":           "(hook.md#not-a-bound-on-locked-memory)",
		"docs/reference/cdi-gen.md": "locked memory SIZE; a process may raise it",
		"docs/reference/dra-driver.md": "soft limit (SIZE) of locked memory where neither claim nor class has one; " +
			"a process may raise it",
		"docs/reference/rdma-hook.md": "It is no bound:",
		"docs/reference/configuration.md": "It bounds the soft limit that the driver sets. " +
			"A container can still lock more",
		"deployments/helm/dra-driver-rdma/README.md": "It is no bound: " +
			"a process may raise its limit to the hard one",
		"deployments/helm/dra-driver-rdma/values.schema.json": "It is no bound: a process may raise its own limit",
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil || !strings.Contains(string(text), says) {
			t.Errorf("%s does not say %q (%v)", file, says, err)
		}
	}
}
