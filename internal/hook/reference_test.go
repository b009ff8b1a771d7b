package hook_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/rdma-hook.md", []byte("# rdma-hook: flags, exit codes\n\n"+
		"Made from the program itself by `make golden`; `rdma-hook --help` says the same. [What it is](../hook.md).\n\n"+
		"```text\n"+hook.Usage()+"```\n"))
	golden.Section(t, "../../docs/reference/exit-codes.md", "rdma-hook", reference.ExitCodes("rdma-hook", hook.ExitCodes))
}
