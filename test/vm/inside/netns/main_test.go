// Package netns holds tests that run inside the virtual machine: RDMA devices that move
// between network namespaces for real, and traffic of those that are there.
package netns

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	m.Run()
}
