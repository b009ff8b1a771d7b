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
		"What `rdma-hook --help` prints. [Locked memory and limits](../hook.md) explains it.\n\n"+
		"```text\n"+hook.Usage()+"```\n"))
	golden.Section(t, "../../docs/reference/exit-codes.md", "rdma-hook", reference.ExitCodes("rdma-hook", hook.ExitCodes))
}
