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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// movable are the devices that can follow a pod: the first one alone on a link, the others
// at the ends of one.
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

// identities are the devices of the host: their ibdevs, slots and node GUIDs.
func identities(t *testing.T) []string {
	t.Helper()
	snap, err := rdma.Discover(sysfs.DirFS("/sys"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range snap.HCAs {
		out = append(out, fmt.Sprintf("%s %s %s", h.IBDev, h.Name, h.NodeGUID))
	}
	return out
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

// home waits until the host has all its devices, by the kernel's own list, and counts them by
// what they are.
func home(t *testing.T, want []string) {
	t.Helper()
	inside.Eventually(t, "all devices are on the host", 2*time.Minute, func() error {
		names, err := devices("self")
		if err == nil && len(names) != len(want) {
			err = fmt.Errorf("the host has %v", names)
		}
		return err
	})
	if got := identities(t); !slices.Equal(got, want) {
		t.Errorf("the host had\n%s\nand has\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// processes finds processes of the machine by their program's name.
func processes(t *testing.T, program string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == program {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// sandbox is the process of the sandbox that has a device.
func sandbox(t *testing.T, ibdev string) (pid int) {
	t.Helper()
	for _, pid := range processes(t, "pause") {
		if names, err := devices(strconv.Itoa(pid)); err == nil && slices.Contains(names, ibdev) {
			return pid
		}
	}
	t.Fatalf("no sandbox has %s; the host has %v", ibdev, identities(t))
	return 0
}

// counted returns the devices of the host, for home. If the test fails it says what there is to
// see.
func counted(t *testing.T) []string {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said(context.Background()))
		}
	})
	return identities(t)
}

// said is what one wants to see when something does not happen.
func said(ctx context.Context) string {
	var b strings.Builder
	for _, args := range [][]string{
		{"kubectl", "--namespace", "dra-driver-rdma", "describe", "pods"},
		{"kubectl", "--namespace", "dra-driver-rdma", "logs", "--all-containers", "--tail=60", "--selector", "app.kubernetes.io/name=dra-driver-rdma"},
		{"tail", "-n", "40", node.LogFile(cluster.Kubelet)},
		{"tail", "-n", "40", node.LogFile(cluster.Containerd)},
	} {
		out, err := node.Output(ctx, args[0], args[1:]...)
		fmt.Fprintln(&b, "---", strings.Join(args, " "), err)
		fmt.Fprintln(&b, out)
	}
	return b.String()
}
