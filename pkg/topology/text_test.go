package topology_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// TestWideMatrix: a matrix of 40 HCAs is written in parts. Each of them has all rows, and together they have each
// column once.
func TestWideMatrix(t *testing.T) {
	const hcas = 40
	host := &topology.Topology{}
	for i := range hcas {
		d := at(fmt.Sprintf("0000:%02x:00.0", i), fmt.Sprintf("pci0000:%02x", i), 0)
		d.Name = fmt.Sprintf("mlx5_%d", i)
		host.Devices = append(host.Devices, d)
	}
	var out bytes.Buffer
	must.NoError(t, host.WriteMatrix(&out))
	parts := strings.Split(strings.TrimSpace(out.String()), "\n\n")
	if len(parts) != 4 { // three parts, and the legend
		t.Fatalf("%d parts:\n%s", len(parts)-1, out.String())
	}
	columns := 0
	for _, part := range parts[:3] {
		lines := strings.Split(part, "\n")
		columns += strings.Count(lines[0], "mlx5_")
		test.Eq(t, hcas+1, len(lines), test.Sprint("a part"))
		for _, line := range lines {
			test.LessEq(t, 160, len(line), test.Sprintf("%d columns: %s", len(line), line))
		}
	}
	test.True(t, columns == hcas && strings.Count(out.String(), "NUMA\n") == 1,
		test.Sprintf("%d columns:\n%s", columns, out.String()))
}
