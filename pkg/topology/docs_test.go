package topology_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocs: the tree and the picture in the user guide are what the program writes.
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
	picture, err := os.ReadFile("../../docs/topology.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(picture) != string(written(t, discover(t, "hgx-h100").WriteSVG)) {
		t.Error("docs/topology.svg is not the picture of hgx-h100: copy testdata/hgx-h100.svg there")
	}
}
