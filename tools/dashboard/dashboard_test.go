package main

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestGenerated: the file in the chart is what is generated.
func TestGenerated(t *testing.T) {
	want, err := generate()
	must.NoError(t, err)
	got, err := os.ReadFile("../../" + file)
	must.NoError(t, err)
	test.Eq(t, string(want), string(got),
		test.Sprintf("%s is not what is generated: go run ./tools/dashboard", file))
}

// TestWidths: the panels of a row fill its lines.
func TestWidths(t *testing.T) {
	for _, r := range rows {
		var at uint32
		for _, p := range r.panels {
			if at += p.width; at > 24 {
				t.Errorf("%s: %s does not fit into its line", r.title, p.title)
			}
			at %= 24
		}
		test.Eq(t, 0, at, test.Sprintf("%s: its last line is not full", r.title))
	}
}
