package claims

import (
	"fmt"
	"os"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := drivertest.RemoveSharedHost(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
