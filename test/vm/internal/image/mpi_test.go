package image

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestMPIRecipe: the recipe that docs/mpi.md gives users has the packages of the tested image.
func TestMPIRecipe(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/mpi.md")
	must.NoError(t, err)
	list := regexp.MustCompile(`(?s)FROM debian:12\n.*?--no-install-recommends \\\n(.*?) && `).FindSubmatch(page)
	must.NotNil(t, list, must.Sprint("docs/mpi.md has no recipe"))
	test.SliceEqOp(t, mpiPackages, strings.Fields(string(list[1])), test.Sprint("docs/mpi.md installs"))
}
