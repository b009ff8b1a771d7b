package follow

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// The driver stands still while the runtime starts a pod's sandbox, and NRI goes on without
// it: the containers do not start without the HCA, and an event says why. When the driver
// goes on they do, without anybody's help.
func TestFailsClosed(t *testing.T) {
	before := counted(t)
	host, err := hardware()
	must.NoError(t, err)
	stopped, root := drivers(t), nodeRoot(t) // before: the driver is stopped at once when the namespace is there
	had := len(namespaces(t, root))
	create(t, "closed", "rxm0", both)
	// The claim is prepared before the sandbox has a namespace, and NRI is asked when CNI has
	// been in there.
	for deadline := time.Now().Add(2 * time.Minute); len(namespaces(t, root)) == had; time.Sleep(5 * time.Millisecond) {
		must.False(t, time.Now().After(deadline),
			must.Sprintf("the pod has no namespace:\n%s", strings.Join(events(t, "closed"), "\n")))
	}
	signal(t, syscall.SIGSTOP, stopped...)
	t.Cleanup(func() { signal(t, syscall.SIGCONT, stopped...) })
	const why = "RDMA device rxm0 of the claim is not in the pod's network namespace"
	inside.Eventually(t, fmt.Sprintf("an event says %q", why), 3*time.Minute, func() error {
		if all := strings.Join(events(t, "closed"), "\n"); !strings.Contains(all, why) {
			return errors.New(all)
		}
		return nil
	})
	if now, err := hardware(); err != nil || !slices.Equal(now, host) {
		t.Errorf("while the driver stands still the host has\n%s\n%v, and it had\n%s",
			strings.Join(now, "\n"), err, strings.Join(host, "\n"))
	}
	signal(t, syscall.SIGCONT, stopped...)
	ready(t, "closed")
	for _, c := range both {
		logged(t, "closed", c, "hca_id:\trxm0")
	}
	ends(t, "closed")
	home(t, before)
}

// namespaces are the network namespaces of the node's pods, whose root directory is root.
func namespaces(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(root + "/run/netns/*")
	must.NoError(t, err)
	return files
}

// nodeRoot is the root directory of the node.
func nodeRoot(t *testing.T) string {
	t.Helper()
	runtimes := processes(t, cluster.Containerd)
	must.NotEq(t, 0, len(runtimes), must.Sprint("containerd is not there"))
	return fmt.Sprintf("/proc/%d/root", runtimes[0])
}
