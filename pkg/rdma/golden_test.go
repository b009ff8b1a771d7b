package rdma_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestGolden: the whole snapshot of every machine is what its golden file says.
func TestGolden(t *testing.T) {
	for _, name := range fixture.Names() {
		t.Run(name, func(t *testing.T) {
			golden.Bytes(t, name+".json", encode(t, discover(t, name)))
		})
	}
}

// TestGoldenFilesAreUsed: a machine that was renamed leaves no file behind.
func TestGoldenFilesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	must.NoError(t, err)
	var want []string
	for _, name := range fixture.Names() {
		want = append(want, filepath.Join("testdata", name+".json"))
	}
	slices.Sort(want) // the ending comes after "-" and before letters
	test.Eq(t, want, files, test.Sprint("golden files"))
}

// discover returns the snapshot of a fixture machine.
func discover(t testing.TB, machine string) *rdma.Snapshot {
	t.Helper()
	snap, err := rdma.Discover(load(t, machine).FS(t))
	must.NoError(t, err)
	return snap
}

func encode(t testing.TB, snap *rdma.Snapshot) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	must.NoError(t, enc.Encode(snap))
	return buf.Bytes()
}
