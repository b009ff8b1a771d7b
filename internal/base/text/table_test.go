package text_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// TestWrite: cells are escaped and aligned, and an empty cell is shown.
func TestWrite(t *testing.T) {
	var out strings.Builder
	for _, rows := range [][][]string{nil, {{"mlx5_0", "a\tb\x1b"}, {"", "c"}}} {
		must.NoError(t, text.Table(&out, "NAME\tVALUE", rows))
	}
	want := "NAME     VALUE\nmlx5_0   a\\tb\\x1b\n-        c\n"
	test.Eq(t, want, out.String(), test.Sprint("wrote"))
}
