package metrics_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
)

// TestDocs: docs/metrics.md has the table of the catalog.
func TestDocs(t *testing.T) {
	const (
		file       = "../../../docs/metrics.md"
		begin, end = "<!-- metrics: made by go test ./pkg/dra/metrics -update -->\n", "<!-- end of metrics -->"
	)
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | series | meaning |\n|---|---|---|---|---|\n")
	for _, m := range metrics.Catalog() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Bound, m.Help)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(doc) {
		t.Errorf("%s does not have the metrics that there are: go test ./pkg/dra/metrics -update", file)
	}
}
