package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestEveryExampleIsTested: each manifest of the examples is named by a test of this
// package, or by one on a node in the virtual machine, which applies it as it is.
func TestEveryExampleIsTested(t *testing.T) {
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", bed.Checkout.Path("test", "vm", "inside", "follow", "*_test.go")} {
		sources, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range sources {
			tests.WriteString(testbed.ReadFile(t, file))
		}
	}
	examples, err := os.ReadDir(bed.Checkout.Path("examples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range examples {
		name := strings.TrimSuffix(example.Name(), ".yaml")
		if !strings.Contains(tests.String(), `"`+name+`"`) {
			t.Errorf("no test applies examples/%s", example.Name())
		}
	}
}
