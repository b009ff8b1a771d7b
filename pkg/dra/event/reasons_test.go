package event_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// TestEventDocs: docs/reference/events.md has the table of the reasons that there are.
func TestEventDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("| reason | type | on | meaning |\n|---|---|---|---|\n")
	for _, e := range event.Reasons() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", e.Reason, e.Type, e.Objects, e.Meaning)
	}
	golden.Section(t, "../../../docs/reference/events.md", "events", table.String())
}
