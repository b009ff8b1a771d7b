package main

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestStale: the chart has what the type of the configuration and its comments make.
func TestStale(t *testing.T) {
	t.Chdir("../..")
	want, err := generate()
	must.NoError(t, err)
	got, err := os.ReadFile(file)
	must.NoError(t, err)
	test.Eq(t, string(want), string(got), test.Sprintf("%s is stale: go run ./tools/schema", file))
}
