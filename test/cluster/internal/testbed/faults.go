package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// DaemonSet names the driver's, for kubectl.
const DaemonSet = "daemonset/" + deploy.Release

// StopDriver removes the driver's pod from the node, by a node selector that fits
// nothing, until StartDriver or the end of the test.
func (b *Bed) StopDriver(t *testing.T) {
	t.Helper()
	// Without a driver the pods of a test that failed would not end.
	t.Cleanup(func() {
		if t.Failed() {
			b.StartDriver(t)
		}
	})
	b.selectNodes(t, `{"rdma.dev/no-such-node":"true"}`)
	Eventually(t, "end of the driver", func() error {
		out, err := b.Output("kubectl", "--namespace", deploy.Namespace, "get", "pods", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
}

// LetDriverStart undoes StopDriver, and waits for nothing.
func (b *Bed) LetDriverStart(t *testing.T) {
	t.Helper()
	b.selectNodes(t, `{"rdma.dev/no-such-node":null}`)
}

// StartDriver undoes StopDriver and waits until the driver is ready.
func (b *Bed) StartDriver(t *testing.T) {
	t.Helper()
	b.LetDriverStart(t)
	b.Kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", DaemonSet, "--timeout="+Patience.String())
}

func (b *Bed) selectNodes(t *testing.T, selector string) {
	t.Helper()
	b.Kubectl(t, "--namespace", deploy.Namespace, "patch", DaemonSet, "--type=merge",
		"-p", `{"spec":{"template":{"spec":{"nodeSelector":`+selector+`}}}}`)
}

// RestartKubelet restarts the kubelet, waits until the slices that it wipes are back,
// and returns how long they were away.
func (b *Bed) RestartKubelet(t *testing.T) time.Duration {
	t.Helper()
	slices := Follow[Object](b, t, "resourceslices", "--field-selector", "spec.driver=rdma.dev")
	before := len(strings.Fields(b.Kubectl(t, "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev", "-o", "name")))
	away := Away(t, slices, before, func() error { return b.Restart(t.Context(), cluster.Kubelet) })
	t.Logf("%d slices were away for %v", before, away.Round(time.Millisecond))
	return away
}

// Reboot does to the node what a reboot does, as far as pods, kubelet and driver see it:
// all containers end, what is kept in memory is gone, the kernel numbers its devices anew
// (meanwhile). The boot ID cannot be changed; what is written with it is kept in memory.
func (b *Bed) Reboot(t *testing.T, meanwhile func()) {
	t.Helper()
	ctx := t.Context()
	t.Cleanup(func() { // else the pods of a test that failed would not end
		if t.Failed() {
			_ = b.Start(context.Background(), cluster.Containerd)
			_ = b.Start(context.Background(), cluster.Kubelet)
		}
	})
	for _, step := range []func() error{
		func() error { return b.Stop(ctx, cluster.Kubelet, syscall.SIGTERM) },
		func() error {
			return b.shell(`ctr tasks list -q | while read id; do ctr tasks kill -s KILL "$id"; done`)
		},
		func() error { return b.Stop(ctx, cluster.Containerd, syscall.SIGTERM) },
		func() error { return b.shell(`rm -f /var/run/cdi/*`) },
		func() error { return b.shell(`rm -r ` + b.StateDir()) },
		func() error { meanwhile(); return nil },
		func() error { return b.Start(ctx, cluster.Containerd) },
	} {
		must.NoError(t, step())
	}
	// A kubelet that finds containerd not ready to serve it ends, and a node starts it again.
	Eventually(t, "start of the kubelet", func() error { return b.Start(ctx, cluster.Kubelet) })
}

// DriverProcess returns the ID of the driver's process, not that of a probe. Other clusters of the machine may have one
// of that name: the cgroup has the UID of the pod. A driver that was killed may be about to start again.
func (b *Bed) DriverProcess(t *testing.T) (pid string) {
	t.Helper()
	uid := strings.TrimSpace(b.Kubectl(t, "--namespace", deploy.Namespace, "get", "pods",
		"-o", "jsonpath={.items[0].metadata.uid}"))
	Eventually(t, "process of the driver", func() error {
		out, err := b.Output("sh", "-c", `for pid in $(pgrep -x dra-driver); do
			tr '\0' '\n' </proc/$pid/cmdline | grep -qx probe ||
				{ tr _ - </proc/$pid/cgroup | grep -q "$0" && echo $pid; }; done; true`, uid)
		if pid = strings.TrimSpace(out); err == nil && pid == "" {
			err = fmt.Errorf("pod %s has none", uid)
		}
		return err
	})
	return pid
}

// LoseKubeletState deletes a pod by force while the kubelet is down and loses what it knows of claims. It returns when
// the kubelet is back and nothing of the pod is left on the node. Meanwhile happens before the kubelet comes back.
func (b *Bed) LoseKubeletState(t *testing.T, n *Namespace, pod string, meanwhile func()) {
	t.Helper()
	ctx := t.Context()
	t.Cleanup(func() { // else the pods of a test that failed would not end
		if t.Failed() {
			_ = b.Start(context.Background(), cluster.Kubelet)
		}
	})
	uid := n.Kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	must.NotEq(t, "", b.podCgroups(t, uid), must.Sprintf("pod %s has no cgroup", pod))
	must.NoError(t, b.Stop(ctx, cluster.Kubelet, syscall.SIGTERM))
	b.Inside(t, "rm", filepath.Join(b.kubeletDir(), "dra_manager_state"))
	n.Kubectl("delete", "pod", pod, "--force", "--grace-period=0")
	meanwhile()
	must.NoError(t, b.Start(ctx, cluster.Kubelet))
	Eventually(t, "end of what is left of the pod", func() error {
		if left := b.podCgroups(t, uid); left != "" {
			return fmt.Errorf("it has cgroups %s", left)
		}
		return nil
	})
}

// podCgroups lists the cgroups of a pod.
func (b *Bed) podCgroups(t *testing.T, uid string) string {
	t.Helper()
	return b.Inside(t, "sh", "-c", "find /sys/fs/cgroup -type d -name 'pod"+uid+"' 2>/dev/null || true")
}

func (b *Bed) shell(script string) error {
	_, err := b.Output("sh", "-euc", script)
	return err
}

// RestoreEtcd gives the API server the data from before meanwhile, as the restoration of a backup does. All that talks
// to it restarts, but for the driver.
func (b *Bed) RestoreEtcd(t *testing.T, meanwhile func()) {
	t.Helper()
	ctx := t.Context()
	data := filepath.Join(b.options.StateDir, "etcd")
	saved := filepath.Join(t.TempDir(), "etcd")
	stopped := func(during func() error) {
		t.Helper()
		for _, step := range []func() error{
			func() error { return b.Stop(ctx, cluster.APIServer, syscall.SIGTERM) },
			func() error { return b.Stop(ctx, cluster.Etcd, syscall.SIGTERM) },
			during,
		} {
			must.NoError(t, step())
		}
		// Each is ready only with the other.
		etcd := make(chan error, 1)
		go func() { etcd <- b.Start(ctx, cluster.Etcd) }()
		must.NoError(t, errors.Join(b.Start(ctx, cluster.APIServer), <-etcd))
		for _, name := range []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kubelet} {
			must.NoError(t, b.Restart(ctx, name))
		}
	}
	stopped(func() error { return os.CopyFS(saved, os.DirFS(data)) })
	meanwhile()
	stopped(func() error { return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(saved))) })
}
