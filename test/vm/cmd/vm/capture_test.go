package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The captured machine has the devices that were asked for, and what the kernel says of
// them.
func TestCapture(t *testing.T) {
	needs.Long(t, "a tool of maintainers")
	vmtest.Open(t)
	dir := t.TempDir()
	description := filepath.Join(dir, "description")
	must.NoError(t, os.WriteFile(description, []byte("A guest.\nSource: captured in a test\nPeculiar: nothing\n"), 0o644))
	argv := []string{"capture", "--rdma", "rxe0:eth0 siw0:dummy0", "--name", "guest", "--description", description, dir}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), argv, &stdout, &stderr); code != 0 {
		t.Fatalf("status %d\n%s%s", code, &stdout, &stderr)
	}
	archive, err := os.ReadFile(filepath.Join(dir, "guest.txtar"))
	must.NoError(t, err)
	for _, want := range []string{"A guest.", "class/infiniband/rxe0", "class/infiniband/siw0", "class/infiniband_verbs/uverbs1", "class/misc/rdma_cm"} {
		test.StrContains(t, string(archive), want, test.Sprint("the archive has no"))
	}
}
