package text_test

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// TestWrite: cells are escaped and aligned, and an empty cell is shown.
func TestWrite(t *testing.T) {
	var out strings.Builder
	for _, rows := range [][][]string{nil, {{"mlx5_0", "a\tb\x1b"}, {"", "c"}}} {
		if err := text.Table(&out, "NAME\tVALUE", rows); err != nil {
			t.Fatal(err)
		}
	}
	want := "NAME     VALUE\nmlx5_0   a\\tb\\x1b\n-        c\n"
	if got := out.String(); got != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
}
