package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/reference"
)

// TestReference: the reference page is what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/cdi-gen.md", reference.Page(newRoot()))
}
