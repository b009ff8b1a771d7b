package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/reference"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/cdi-gen.md", reference.Page(newRoot()))
	golden.Section(t, "../../docs/reference/exit-codes.md", "cdi-gen", exitCodes.Table("cdi-gen"))
}
