package main

import (
	"os"
	"testing"
)

// TestStale: the chart has what the type of the configuration and its comments make.
func TestStale(t *testing.T) {
	t.Chdir("../..")
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is stale: go run ./tools/schema", file)
	}
}
