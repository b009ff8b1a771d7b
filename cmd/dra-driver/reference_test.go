package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/reference"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/dra-driver.md", reference.Page(newRoot(func(string) string { return "" })))
	golden.Section(t, "../../docs/reference/exit-codes.md", "dra-driver", reference.ExitCodes("dra-driver", serveCodes)+
		reference.ExitCodes("dra-driver explain", explainCodes)+reference.ExitCodes("dra-driver slices", slicesCodes)+
		reference.ExitCodes("dra-driver status", statusCodes)+reference.ExitCodes("dra-driver probe", probeCodes)+
		reference.ExitCodes("dra-driver uninstall-check", uninstallCodes)+
		reference.ExitCodes("dra-driver install-check", installCodes)+
		reference.ExitCodes("dra-driver container-check", containerCodes))
}
