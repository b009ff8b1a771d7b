package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/cdi-gen.md", reference.Page(newRoot()))
	golden.Section(t, "../../docs/reference/exit-codes.md", "cdi-gen", reference.ExitCodes("cdi-gen", exitCodes))
}
