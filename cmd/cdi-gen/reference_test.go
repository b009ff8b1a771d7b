package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/cdi-gen.md", reference.Page(newRoot()))
	golden.Section(t, "../../docs/reference/exit-codes.md", "cdi-gen", exitCodes.Table("cdi-gen"))
}
