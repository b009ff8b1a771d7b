package follow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// movable are the devices that can follow a pod. The first one is alone on a link. The others are at the ends of a
// cable. Beside them are two more devices: the driver of one cannot move it, and pods have shares of the other.
var movable = []string{"rxm0", "rxm1", "rxm2"}

// offers returns the ibdevs that the driver offers, sorted.
func offers(ctx context.Context) ([]string, error) {
	list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=rdma.dev"})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, slice := range list.Items {
		for _, d := range slice.Spec.Devices {
			if name := d.Attributes["ibdev"].StringValue; name != nil && len(d.Taints) == 0 {
				out = append(out, *name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// awaitOffer waits until the driver offers HCAs.
func awaitOffer(t *testing.T, ibdevs ...string) {
	t.Helper()
	inside.Eventually(t, fmt.Sprint("the driver offers ", ibdevs), 2*time.Minute, func() error {
		offered, err := offers(t.Context())
		for _, ibdev := range ibdevs {
			if err == nil && !slices.Contains(offered, ibdev) {
				err = fmt.Errorf("it offers %v", offered)
			}
		}
		return err
	})
}

// devices are the RDMA devices of the namespace of a process.
func devices(pid string) ([]string, error) {
	ns, err := rdmanetns.Open("/proc/" + pid + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return rdmanetns.Devices(ns)
}

// processes finds processes of the machine by their program's name.
func processes(t *testing.T, program string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	must.NoError(t, err)
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == program {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			must.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// sandbox is the process of a pod's sandbox.
func sandbox(t *testing.T, name string) (pid int) {
	t.Helper()
	uid := string(get(t, name).UID)
	for _, pid := range processes(t, "pause") {
		if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); err == nil &&
			strings.Contains(string(group), uid) {
			return pid
		}
	}
	t.Fatalf("pod %s has no sandbox", name)
	return 0
}
