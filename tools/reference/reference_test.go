package main

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestStale: the page is what the types and their comments make.
func TestStale(t *testing.T) {
	t.Chdir("../..")
	page, err := generate()
	must.NoError(t, err)
	golden.File(t, file, page)
}
