package main

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/reference"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestReference: the reference pages are what the program says of itself.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/dra-driver.md", reference.Page(newRoot(func(string) string { return "" })))
	golden.Section(t, "../../docs/reference/exit-codes.md", "dra-driver", serveCodes.Table("dra-driver")+
		explainCodes.Table("dra-driver explain")+
		statusCodes.Table("dra-driver status")+probeCodes.Table("dra-driver probe")+
		uninstallCodes.Table("dra-driver uninstall-check"))
}
