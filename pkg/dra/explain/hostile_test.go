package explain_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
)

// TestHostileNames: a name of the kernel or of a file is never a line, nor anything that a terminal acts on.
func TestHostileNames(t *testing.T) {
	const hostile = "x\x1b]0;y\x07\u202e\nmlx5_9 \t\u009b"
	r := &explain.Report{
		HCAs: []explain.HCA{{Name: hostile, IBDev: hostile, Rule: hostile, Wanted: hostile, Reason: hostile, Fault: hostile,
			Attributes: map[string]any{hostile: hostile}}},
		Groups: []explain.Group{{Name: hostile, Reason: hostile, Members: []string{hostile}}},
		Limits: "none",
	}
	for _, format := range explain.Formats {
		text := string(write(t, r, format))
		test.Less(t, 0, strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }),
			test.Sprintf("%s: a terminal acts on", format))
		test.StrNotContains(t, text, "\nmlx5_9", test.Sprintf("%s: a name makes a line", format))
	}
}
