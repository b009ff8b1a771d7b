package follow

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// The driver is killed before a pod comes, while it starts and while it ends, and containerd
// while it starts. After each of 100 pods the devices of the host are counted.
func TestKills(t *testing.T) {
	needs.Long(t, "TestFailsClosed and TestMove show pods that start and end without the driver")
	const pods = 100
	before := counted(t)
	kills := map[string]int{}
	for i := range pods {
		name := "kill-" + strconv.Itoa(i)
		driver := func() { signal(t, syscall.SIGKILL, drivers(t)...); kills["driver"]++ }
		switch i % 3 {
		case 0: // before it comes
			driver()
			create(t, name, "rxm0", one)
		case 1: // while it starts, at another moment each time
			create(t, name, "rxm0", one)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond % time.Second)
			if i%2 == 0 {
				driver()
			} else {
				killRuntime(t)
				kills["containerd"]++
			}
		default:
			create(t, name, "rxm0", one)
		}
		ready(t, name)
		logged(t, name, "one", "hca_id:\trxm0")
		if i%3 == 2 { // while it ends
			must.NoError(t, client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
			driver()
		}
		ends(t, name)
		home(t, before)
		must.False(t, t.Failed(), must.Sprintf("after %d pods", i+1))
	}
	t.Logf("%d pods; killed %v", pods, kills)
}

// drivers are the processes of the driver itself, without its probes.
func drivers(t *testing.T) (pids []int) {
	t.Helper()
	for _, pid := range processes(t, "dra-driver") {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && !bytes.Contains(args, []byte("\x00probe\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to processes. Some of the processes may have ended.
func signal(t *testing.T, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Errorf("signal process %d: %v", pid, err)
		}
	}
}

// killRuntime kills containerd and starts it again.
func killRuntime(t *testing.T) {
	t.Helper()
	must.NoError(t, node.Stop(t.Context(), cluster.Containerd, syscall.SIGKILL))
	must.NoError(t, node.Start(t.Context(), cluster.Containerd))
}
