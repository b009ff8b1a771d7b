package image

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMPIRecipe: the recipe that docs/mpi.md gives users has the packages of the tested image.
func TestMPIRecipe(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/mpi.md")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)FROM debian:12\n.*?--no-install-recommends \\\n(.*?) && `).FindSubmatch(page)
	if list == nil {
		t.Fatal("docs/mpi.md has no recipe")
	}
	if got := strings.Fields(string(list[1])); !slices.Equal(got, mpiPackages) {
		t.Errorf("docs/mpi.md installs %q, and the test's image has %q", got, mpiPackages)
	}
}
