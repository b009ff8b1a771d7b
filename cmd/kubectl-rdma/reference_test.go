package main

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	t.Setenv("HOME", "/home/you") // a default is below it
	golden.File(t, "../../docs/reference/kubectl-rdma.md", reference.Page(newRoot(genericiooptions.IOStreams{})))
	golden.Section(t, "../../docs/reference/exit-codes.md", "kubectl-rdma", reference.ExitCodes("kubectl rdma", exitCodes)+
		reference.ExitCodes("kubectl rdma why", whyCodes))
}
