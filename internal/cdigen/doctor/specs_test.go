package doctor

import (
	"testing"

	"github.com/shoenig/test"
)

// TestRewrite: a directory is one word of the command, whatever its name is.
func TestRewrite(t *testing.T) {
	s := specFile{dir: "/home/a b", path: "/home/a b/other.json"}
	test.Eq(t, "rm '/home/a b/other.json' && cdi-gen generate --to '/home/a b'", s.rewrite())
}
