package soak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/shoenig/test"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/soak"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	code := m.Run()
	if err := drivertest.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// TestSoak has a driver live through trouble.
func TestSoak(t *testing.T) {
	needs.Long(t, "random trouble, 77 s of processor time; TestFaultInCall and TestKillAtEachCall have each fault once")
	s := start(t)
	soak.Run(t, s, 10*time.Second)
	t.Logf("%d claims were allocated from the slices, and %d against them, as by a scheduler with a bug or an old view", s.allocated, s.forced)
	test.NotEq(t, 0, s.allocated, test.Sprint("no claim was allocated"))
}
