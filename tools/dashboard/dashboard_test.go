package main

import (
	"os"
	"testing"
)

// TestGenerated: the file in the chart is what is generated.
func TestGenerated(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what is generated: go run ./tools/dashboard", file)
	}
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
		if at != 0 {
			t.Errorf("%s: its last line is not full", r.title)
		}
	}
}
