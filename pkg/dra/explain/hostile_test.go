package explain_test

import (
	"strings"
	"testing"
	"unicode"

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
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%s: a terminal acts on %q", format, text[max(i-60, 0):min(i+20, len(text))])
		}
		if strings.Contains(text, "\nmlx5_9") {
			t.Errorf("%s: a name makes a line:\n%s", format, text)
		}
	}
}
