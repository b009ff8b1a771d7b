package faults

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// parallel is how many parallel tests run: each has a node of its own, and most of its time
// it waits for a driver, for an API server that hangs, or for a back-off.
const parallel = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); runtime.GOMAXPROCS(0) < parallel && f.Value.String() == f.DefValue {
		if err := flag.Set(f.Name, strconv.Itoa(parallel)); err != nil {
			panic(err)
		}
	}
	klog.LogToStderr(false)
	klog.SetOutput(&bytes.Buffer{})
	code := m.Run()
	if err := drivertest.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
