package thread_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
)

// TestNotMain: the main thread cannot end, so nothing may change it.
func TestNotMain(t *testing.T) {
	var calls sync.WaitGroup
	for range 1000 {
		calls.Go(func() {
			thread.Do(func() {
				runtime.Gosched()
				test.NotEq(t, unix.Getpid(), unix.Gettid())
			})
		})
	}
	calls.Wait()
}
