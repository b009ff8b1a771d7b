package dra_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// Mistakes that other drivers have made, which keep what they know by pod or by name.

// TestEndOfOneClaim: a pod has two claims. When the one ends, the other keeps what it
// has; when that ends too, nothing is left.
func TestEndOfOneClaim(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	a, b := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(a, b)
	prepare(t, n, a)
	ids := prepare(t, n, b)
	unprepare(t, n, a)
	wantFiles(t, n, b)
	test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
	unprepare(t, n, b)
	wantFiles(t, n)
}

// TestLateEndOfANamesake: a claim was deleted and made again under its name. The end of
// the first, which comes late, takes nothing from the second.
func TestLateEndOfANamesake(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	first := drivertest.Claim(1, dev0)
	n.AddClaim(first)
	prepare(t, n, first)
	second := drivertest.Claim(2, dev1)
	second.Name = first.Name
	n.AddClaim(second)
	ids := prepare(t, n, second)
	unprepare(t, n, first)
	wantFiles(t, n, second)
	test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
}
