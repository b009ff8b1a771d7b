package nodefeature_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nodefeature"
)

// The file has one line with the label, and is gone without a leaf. A name that is no value of a label is refused.
func TestWrite(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	const head = "# +expiry-time=2026-11-27T12:00:00Z\n"
	for _, step := range []struct{ leaf, want, err string }{
		{"", "", ""},
		{"leaf-1", head + "rdma.dev/leaf-switch=leaf-1\n", ""},
		{"leaf-2.example.com", head + "rdma.dev/leaf-switch=leaf-2.example.com\n", ""},
		{"leaf 2", "", `"leaf 2" cannot be a label`},
		{"leaf-3", head + "rdma.dev/leaf-switch=leaf-3\n", ""},
		{"a\nfeature.node.kubernetes.io/x=y", "", "cannot be a label"},
		{strings.Repeat("l", 64), "", "cannot be a label"},
		{"leaf-4", head + "rdma.dev/leaf-switch=leaf-4\n", ""},
		{"", "", ""},
	} {
		err := nodefeature.Write(dir, step.leaf, now)
		if (err != nil) != (step.err != "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("leaf %q: error %v, want %q", step.leaf, err, step.err)
		}
		data, err := os.ReadFile(filepath.Join(dir, nodefeature.File))
		if string(data) != step.want || (err != nil) != (step.want == "") {
			t.Errorf("leaf %q: the file is %q, %v, want %q", step.leaf, data, err, step.want)
		}
		if info, err := os.Stat(filepath.Join(dir, nodefeature.File)); err == nil && info.Mode().Perm() != 0o644 {
			t.Errorf("NFD runs as another user, and the file has mode %v", info.Mode())
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	test.Error(t, nodefeature.Write(filepath.Join(dir, "missing"), "leaf-1", now),
		test.Sprint("a missing directory is no"))
}
