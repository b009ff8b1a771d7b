package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// pod renders a pod that stays, with two containers of an ordinary user and, unless the
// claim is empty, a claim of the HCA that can be moved.
func pod(name string, claim bool) string {
	var claims, resources string
	if claim {
		claims = "  resourceClaims: [{name: hca, resourceClaimName: " + name + "}]\n"
		resources = "\n    resources: {claims: [{name: hca}]}"
	}
	var containers strings.Builder
	for _, c := range []string{"one", "two"} {
		fmt.Fprintf(&containers, `
  - name: %s
    image: %s
    imagePullPolicy: Never
    command: [sleep, "100000"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}%s`, c, vm.ToolsImage, resources)
	}
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true}
%s  containers:%s
`, name, claims, &containers)
	if claim {
		manifest = fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev}}]}}
---`, name) + manifest
	}
	return manifest
}

// runs makes a pod and waits until it is ready; it returns how long that took.
func runs(t *testing.T, name string, claim bool) time.Duration {
	t.Helper()
	began := time.Now()
	apply(t, pod(name, claim))
	ready(t, name)
	return time.Since(began)
}

func ready(t *testing.T, name string) {
	t.Helper()
	if out, err := kube.Output(t.Context(), "kubectl", "wait", "--for=condition=Ready", "pod/"+name, "--timeout=3m"); err != nil {
		t.Fatalf("%v %s\n%s\n%s", err, out, kubectl(t, "describe", "pod", name), driverState(t.Context()))
	}
}

// ends deletes a pod and its claim, and waits until the HCA is on the host again.
func ends(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "delete", "pod/"+name, "--timeout=3m")
	kubectl(t, "delete", "resourceclaim/"+name, "--ignore-not-found", "--timeout=3m")
	inside.Eventually(t, "the device is on the host", time.Minute, onHost)
}

// onHost says why the HCA is not on the host.
func onHost() error {
	own, err := rdmanetns.Own()
	if err != nil {
		return err
	}
	defer own.Close()
	names, err := rdmanetns.Devices(own)
	if err == nil && !slices.Contains(names, "rxm0") {
		err = fmt.Errorf("the host has %v", names)
	}
	return err
}

// look says what a container or an exec session has.
const look = `echo "memlock $(ulimit -S -l) devices $(ls /sys/class/infiniband | tr '\n' ' ')nodes $(ls /dev/infiniband 2>/dev/null | tr '\n' ' ')"; ibv_devinfo 2>&1 | grep -E "hca_id|state"`

// Only what can follow a pod is offered.
func TestOffered(t *testing.T) {
	got := kubectl(t, "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev", "-o",
		"jsonpath={range .items[*].spec.devices[*]}{.attributes.ibdev.string} {.attributes.netnsMode.string}{\"\\n\"}{end}")
	if got != "rxm0 exclusive" && got != "rxm0 exclusive\n" {
		t.Errorf("the slice has %q", got)
	}
	inside.Wants(t, "the driver", driverState(t.Context()), "Connected to NRI", "the HCA cannot follow a pod")
}

// A pod with a claim has its HCA and no other, in all its containers and in exec sessions,
// with the same limit of locked memory; a pod without a claim sees none. The HCA comes back.
func TestFollow(t *testing.T) {
	without := runs(t, "without", false)
	with := runs(t, "with", true)
	again := runs(t, "without-again", false)
	t.Logf("a pod is ready after %v with an HCA, after %v and %v without", with, without, again)
	if onHost() == nil {
		t.Error("the HCA is on the host while a pod has it")
	}
	for _, c := range []string{"one", "two"} {
		out := kubectl(t, "exec", "with", "-c", c, "--", "sh", "-c", look)
		inside.Wants(t, "container "+c, out, "memlock unlimited devices rxm0 nodes rdma_cm "+inside.Node(t, "infiniband_verbs", "rxm0"), "hca_id:\trxm0", "PORT_ACTIVE")
		out = kubectl(t, "exec", "without", "-c", c, "--", "sh", "-c", look)
		inside.Wants(t, "container "+c+" without a claim", out, " devices nodes ")
	}
	slice := kubectl(t, "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev", "-o", "jsonpath={.items[*].spec.devices[*].attributes.ibdev.string}{.items[*].spec.devices[*].taints}")
	if slice != "rxm0" {
		t.Errorf("while the pod has the HCA the slice has %q", slice)
	}
	ends(t, "with")
	kubectl(t, "delete", "pod", "without", "without-again", "--timeout=3m")
}

// The driver is killed again and again, while pods come and go.
func TestKills(t *testing.T) {
	for i := range 4 {
		name := "kill-" + strconv.Itoa(i)
		if i%2 == 0 {
			killDriver(t)
		}
		runs(t, name, true)
		inside.Wants(t, name, kubectl(t, "exec", name, "-c", "one", "--", "sh", "-c", look), "hca_id:\trxm0")
		if i%2 == 1 {
			killDriver(t)
		}
		ends(t, name)
	}
}

// killDriver kills the driver's process, which the kubelet starts again.
func killDriver(t *testing.T) {
	t.Helper()
	for _, pid := range processes(t, "dra-driver") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// processes finds processes of the guest by their program's name.
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

// While the driver is away a pod's sandbox dies: the kernel takes the HCA back, and the
// containers of the new sandbox do not start without it. When the driver is back they
// do, without anybody's help.
func TestFailsClosed(t *testing.T) {
	runs(t, "closed", true)
	kubectl(t, "--namespace", deploy.Namespace, "patch", "daemonset", "dra-driver-rdma", "-p", `{"spec":{"template":{"spec":{"nodeSelector":{"no":"node"}}}}}`)
	inside.Eventually(t, "the driver is away", 3*time.Minute, func() error {
		if pids := processes(t, "dra-driver"); len(pids) > 0 {
			return fmt.Errorf("its processes are %v", pids)
		}
		return nil
	})
	for _, pid := range processes(t, "pause") {
		if has(pid, "rxm0") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	inside.Eventually(t, "the hook stops the containers", 5*time.Minute, func() error {
		if out := kubectl(t, "describe", "pod", "closed"); !strings.Contains(out, "rxm0 of the claim is not in the pod's network namespace") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if err := onHost(); err != nil {
		t.Error(err)
	}
	kubectl(t, "--namespace", deploy.Namespace, "patch", "daemonset", "dra-driver-rdma", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/nodeSelector/no"}]`)
	inside.Eventually(t, "the containers start", 10*time.Minute, func() error {
		out, err := kube.Output(t.Context(), "kubectl", "exec", "closed", "-c", "two", "--", "sh", "-c", look)
		if err == nil && !strings.Contains(out, "hca_id:\trxm0") {
			err = fmt.Errorf("it has %s", out)
		}
		return err
	})
	ends(t, "closed")
}

// has reports whether the namespace of a process has an RDMA device.
func has(pid int, ibdev string) bool {
	ns, err := rdmanetns.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return false
	}
	defer ns.Close()
	names, err := rdmanetns.Devices(ns)
	return err == nil && slices.Contains(names, ibdev)
}
