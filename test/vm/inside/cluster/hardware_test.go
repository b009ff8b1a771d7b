package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/published"
)

// The devices, which are the slots: rxe1 of dummy0 is held by a claim, rxe0 of eth0 is
// free.
const (
	held = "soft-rxe-dummy0"
	free = "soft-rxe-eth0"
)

// marker is how the process of the container is found from outside.
const marker = "1000001"

// holder is a pod that has a device and does not use it: the kernel takes no soft-RoCE
// device away from a program.
var holder = fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  resourceClaims: [{name: hca, resourceClaimName: held}]
  containers:
  - name: hca
    image: %s
    imagePullPolicy: Never
    command: [sh, -c, %q]
    resources: {claims: [{name: hca}]}
`, vm.ToolsImage, look+"exec sleep "+marker)

// hardware is a pod with a device whose hardware has trouble.
type hardware struct {
	*testing.T
	*published.Pool
	client kubernetes.Interface
	uid    string // of the claim
}

// TestHardware lets the link of a pod's device fail, which the pod's status tells, and
// unloads the whole RDMA stack under driver and pod. When it is back, with the device
// under another number, the container can be restarted with it, and the claim's status tells
// of the interface that the pod has of it. What the API server is told of each change of the
// hardware, package inside/driver tests.
func TestHardware(t *testing.T) {
	client := api(t)
	h := &hardware{T: t, Pool: published.Follow(t, client), client: client}
	h.Await(t, held, published.Tainted())
	apply(t, oneHCA("held", `device.attributes["rdma.dev"].ibdev == "rxe1"`)+holder)
	t.Cleanup(func() { // the context of the test has ended
		if _, err := kube.Output(context.Background(), "kubectl", "delete", "pod/holder", "resourceclaim/held", "--timeout=10m"); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, "wait", "--for=condition=Ready", "pod/holder", "--timeout=10m")
	h.uid = kubectl(t, "get", "resourceclaim", "held", "-o", "jsonpath={.metadata.uid}")
	h.Hold(t, held)

	h.run("ip link set dummy0 down")
	h.Await(t, held, published.Tainted("port-down"))
	h.healthy("Unhealthy", "port 1 is DOWN (Disabled)")
	h.run("ip link set dummy0 up")
	h.Await(t, held, published.Tainted())
	h.healthy("Healthy", "")

	before := inside.Node(t, "infiniband_verbs", "rxe1")
	h.reload()
	h.plumb()
	h.restart("rxe1", before)
	h.networkData()
	test.Eq(t, "0", kubectl(t, "get", "pods", "--namespace", deploy.Namespace, "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"),
		test.Sprint("the driver was restarted"))
}

// api returns a client of the API server, which the whole machine reaches.
func api(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := drivertest.ClientOf(kube.Kubeconfig())
	must.NoError(t, err)
	return client
}

func (h *hardware) run(command string) { inside.Must(h.T, strings.Fields(command)...) }

// reload unloads the RDMA stack and loads it again; the devices come back in the other
// order.
func (h *hardware) reload() {
	h.Helper()
	h.run("modprobe -r rdma_rxe")
	h.Await(h.T, held, published.Tainted("device-gone"))
	h.Await(h.T, free, published.Unpublished)
	inside.UnloadCore(h.T, patience)
	h.run("modprobe -a ib_uverbs ib_umad rdma_ucm crc32_generic rdma_rxe")
	h.run("rdma link add rxe1 type rxe netdev dummy0")
	h.run("rdma link add rxe0 type rxe netdev eth0")
	h.Await(h.T, held, published.Called("ibdev", "rxe1"))
	h.Await(h.T, free, published.Called("ibdev", "rxe0"))
}

// restart waits until the spec of the claim has the node of an ibdev, which is not the
// one from before, and kills the container: the next one has that node.
func (h *hardware) restart(ibdev, before string) {
	h.Helper()
	node := inside.Node(h.T, "infiniband_verbs", ibdev)
	if node == before {
		h.Fatalf("%s has %s as before: the test has not moved it", ibdev, node)
	}
	inside.Eventually(h.T, "spec of the claim with "+node, patience, func() error {
		spec, err := kube.Output(h.Context(), "cat", "/var/run/cdi/rdma.dev-claim_"+h.uid+".json")
		if err == nil && (!strings.Contains(spec, "/"+node+`"`) || strings.Contains(spec, "/"+before+`"`)) {
			err = fmt.Errorf("the spec is %s", spec)
		}
		return err
	})
	if err := syscall.Kill(h.process(), syscall.SIGKILL); err != nil {
		h.Fatal(err)
	}
	inside.Eventually(h.T, "the container runs again with "+node, patience, func() error {
		if h.status().RestartCount != 1 {
			return errors.New("it was not restarted")
		}
		logs := h.client.CoreV1().Pods("default").GetLogs("holder", &corev1.PodLogOptions{})
		data, err := logs.DoRaw(h.Context())
		out := string(data)
		if err == nil && (!strings.Contains(out, "nodes rdma_cm "+node+" \n") || !strings.Contains(out, "devices "+ibdev+" \n")) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
}

// process is that of the container.
func (h *hardware) process() (pid int) {
	h.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.Fatal(err)
	}
	for _, file := range files {
		argv, err := os.ReadFile(file)
		if err != nil || string(argv) != "sleep\x00"+marker+"\x00" {
			continue // ended meanwhile, or another one
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
			h.Fatal(err)
		}
		return pid
	}
	h.Fatal("the container's process is not there")
	return 0
}

func (h *hardware) status() corev1.ContainerStatus {
	h.Helper()
	pod, err := h.client.CoreV1().Pods("default").Get(h.Context(), "holder", metav1.GetOptions{})
	if err != nil || len(pod.Status.ContainerStatuses) != 1 {
		h.Fatalf("status of the pod: %v", err)
	}
	return pod.Status.ContainerStatuses[0]
}

// healthy waits until the kubelet says so of the device in the pod's status.
func (h *hardware) healthy(want corev1.ResourceHealthStatus, message string) {
	h.Helper()
	inside.Eventually(h.T, "health of the pod's device", patience, func() error {
		for _, allocated := range h.status().AllocatedResourcesStatus {
			for _, r := range allocated.Resources {
				if r.Health == want && (r.Message == nil && message == "" || r.Message != nil && strings.Contains(*r.Message, message)) {
					return nil
				}
			}
		}
		return fmt.Errorf("the pod's status says %+v", h.status().AllocatedResourcesStatus)
	})
}
