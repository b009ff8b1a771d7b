package testbed

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// ControlPlane starts an API server alone until the end of the test. It returns the search
// path of the cluster's programs, too.
func ControlPlane(t testing.TB, o cluster.Options) (control *cluster.ControlPlane, path string) {
	t.Helper()
	path, err := cluster.Build(t.Context(), o)
	must.NoError(t, err)
	if control, err = cluster.StartControlPlane(t.Context(), t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		test.NoError(t, control.Stop())
	})
	return control, path
}
