package dra_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

var update = flag.Bool("update", false, "rewrite the table of events in docs")

// TestEventDocs: docs/events.md has the table of the reasons that there are.
func TestEventDocs(t *testing.T) {
	const (
		file       = "../../docs/events.md"
		begin, end = "<!-- events: made by go test ./pkg/dra -update -->\n", "<!-- end of events -->"
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
	table.WriteString("| reason | type | on | meaning |\n|---|---|---|---|\n")
	for _, e := range dra.EventReasons() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", e.Reason, e.Type, e.About, e.Meaning)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(doc) {
		t.Errorf("%s does not have the events that there are: go test ./pkg/dra -update", file)
	}
}
