package topology_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestDocs: the tree and the picture in the user guide are what the program writes.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/topology.md")
	must.NoError(t, err)
	golden, err := os.ReadFile("testdata/dgx-h100-ib.txt")
	must.NoError(t, err)
	tree, _, _ := strings.Cut(string(golden), "\n\n")
	test.StrContains(t, string(doc), "```\n"+tree+"\n```\n",
		test.Sprintf("docs/topology.md does not have the tree of dgx-h100-ib:\n%s", tree))
	picture, err := os.ReadFile("../../docs/topology.svg")
	must.NoError(t, err)
	test.Eq(t, string(written(t, discover(t, "hgx-h100").WriteSVG)), string(picture),
		test.Sprint("docs/topology.svg is not the picture of hgx-h100: copy testdata/hgx-h100.svg there"))
}
