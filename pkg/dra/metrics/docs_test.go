package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
)

// TestDocs: docs/reference/metrics.md has the table of the catalog.
func TestDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("| metric | type | labels | series | meaning |\n|---|---|---|---|---|\n")
	for _, m := range metrics.Catalog {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Bound, m.Help)
	}
	golden.Section(t, "../../../docs/reference/metrics.md", "metrics", table.String())
}
