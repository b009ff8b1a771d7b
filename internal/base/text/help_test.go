package text_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

func TestHelp(t *testing.T) {
	const help = `Do things with a line that its author has written longer than a terminal is, as may be,
and which goes on.

This one
is short.

Exit codes:
   0  done
   9  the flags choose none of the host's RDMA devices, or give them no name: an existing spec stays

Examples:
  tool list --with a very long line that somebody may copy and that therefore stays as it is

Flags:
      --debug           name each file that is read
  -o, --output FORMAT   FORMAT of the output, which is one of table, json, yaml or name (default "table")
      --one STRING      http://example.com/a-word-without-any-place-to-break-which-is-longer-than-the-line and more
`
	const want = `Do things with a line that its author has written longer than a terminal is, as
may be, and which goes on.

This one
is short.

Exit codes:
   0  done
   9  the flags choose none of the host's RDMA devices, or give them no name: an
      existing spec stays

Examples:
  tool list --with a very long line that somebody may copy and that therefore stays as it is

Flags:
      --debug           name each file that is read
  -o, --output FORMAT   FORMAT of the output, which is one of table, json, yaml
                        or name (default "table")
      --one STRING      http://example.com/a-word-without-any-place-to-break-which-is-longer-than-the-line
                        and more
`
	test.Eq(t, want, text.Help(help))
}

func TestWithHint(t *testing.T) {
	for said, want := range map[string]string{
		"no such flag":               "no such flag; see tool list --help",
		"one\ntwo":                   "one\ntwo\nsee tool list --help",
		"unknown x; see tool --help": "unknown x; see tool --help",
	} {
		test.Eq(t, want, text.WithHint(said, "tool list"), test.Sprintf("%q", said))
	}
}
