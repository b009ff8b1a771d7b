package vm_test

import (
	"os"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

func TestMain(m *testing.M) {
	vm.Init() // QEMU starts this program as a relay
	os.Exit(m.Run())
}
