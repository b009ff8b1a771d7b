package installcheck_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/installcheck"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// TestJudge: of a release that works, what works is listed. The first thing that does not is named with what to do.
func TestJudge(t *testing.T) {
	var rows []struct {
		Name    string
		Patches patch.Patches
	}
	patch.File(t, "testdata/rows.yaml", &rows)
	judged := map[string]installcheck.Result{}
	for _, row := range rows {
		var s installcheck.State
		patch.File(t, "testdata/working.yaml", &s, row.Patches)
		judged[row.Name] = installcheck.Judge(s)
	}
	golden.JSON(t, "judged", judged)
}
