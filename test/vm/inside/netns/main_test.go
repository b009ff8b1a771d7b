// Package netns holds tests that run inside the virtual machine: RDMA devices that move
// between network namespaces for real, and traffic of those that are there.
package netns

import (
	"fmt"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

func TestMain(m *testing.M) {
	vmtest.Guard()
	m.Run()
}

// mode sets the mode of the RDMA subsystem. The kernel refuses while there is a namespace
// beside the host's, and one that was deleted is there for a moment.
func mode(t *testing.T, want string) {
	t.Helper()
	inside.Eventually(t, "set the mode to "+want, time.Minute, func() error {
		if r := inside.Run("rdma", "system", "set", "netns", want); r.Code != 0 {
			return fmt.Errorf("%s", r.Out)
		}
		return nil
	})
}
