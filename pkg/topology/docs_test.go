package topology_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocs: the tree in the user guide is what the program prints.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/dgx-h100-ib.txt")
	if err != nil {
		t.Fatal(err)
	}
	tree, _, _ := strings.Cut(string(golden), "\n\n")
	if !strings.Contains(string(doc), "```\n"+tree+"\n```\n") {
		t.Errorf("docs/topology.md does not have the tree of dgx-h100-ib:\n%s", tree)
	}
}
