// Package driver holds tests that run inside the virtual machine: the driver in the test's
// process, on a real RDMA kernel, with a real API server alone, which is outside, and a kubelet of the
// test's. Links, devices and modules go away and come back under it.
package driver

import (
	"flag"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// patience is for emulated time.
const patience = 10 * time.Minute

func TestMain(m *testing.M) {
	vmtest.Guard()
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	klog.SetOutput(os.Stdout)
	klog.LogToStderr(false)
	m.Run()
}
