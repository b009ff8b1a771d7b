package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
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
// device away from a program. It has the network of the node, since the kernel refuses
// to leave exclusive mode while there is another one.
var holder = fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  hostNetwork: true
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
	*pool
	uid      string // of the claim
	restarts int32
}

// TestHardware takes links, devices and modules away from a running driver and a pod,
// and brings them back under other names. The API server is told what is wrong, the
// device that the claim holds is the same one all the time, and the container can be
// restarted with it.
func TestHardware(t *testing.T) {
	h := &hardware{T: t, pool: follow(t)}
	h.await(t, held, tainted())
	apply(t, oneHCA("held", `device.attributes["rdma.dev"].ibdev == "rxe1"`)+holder)
	t.Cleanup(func() { kubectl(t, "delete", "pod/holder", "resourceclaim/held", "--timeout=10m") })
	kubectl(t, "wait", "--for=condition=Ready", "pod/holder", "--timeout=10m")
	h.uid = kubectl(t, "get", "resourceclaim", "held", "-o", "jsonpath={.metadata.uid}")
	h.hold(t, held)
	for _, step := range []struct {
		name string
		do   func(*hardware)
	}{
		{"link", (*hardware).link},
		{"device removed and added", (*hardware).removed},
		{"other names", (*hardware).otherNames},
		{"renamed", (*hardware).renamed},
		{"modules", (*hardware).modules},
		{"flaps", (*hardware).flaps},
		{"storm", (*hardware).storm},
		{"netns mode", (*hardware).netnsMode},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			step.do(&hardware{T: t, pool: h.pool, uid: h.uid, restarts: h.restarted()})
		})
		if !ok {
			return // what comes next expects that all is well
		}
	}
	if got := kubectl(t, "get", "pods", "--namespace", deploy.Namespace, "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); got != "0" {
		t.Errorf("the driver was restarted %s times", got)
	}
}

func (h *hardware) run(command string) { inside.Must(h.T, strings.Fields(command)...) }

func (h *hardware) link() {
	h.run("ip link set dummy0 down")
	h.await(h.T, held, tainted("port-down"))
	h.await(h.T, free, tainted())
	h.healthy("Unhealthy", "port 1 is DOWN (Disabled)")
	inside.Eventually(h.T, "event on the node", patience, func() error {
		out := kubectl(h.T, "--namespace", "default", "get", "events", "--field-selector", "reason=RDMAPortDown", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, held) {
			return fmt.Errorf("events say %q", out)
		}
		return nil
	})
	h.run("ip link set dummy0 up")
	h.await(h.T, held, tainted())
	h.healthy("Healthy", "")
}

func (h *hardware) removed() {
	h.run("rdma link del rxe1")
	h.await(h.T, held, tainted("device-gone"))
	h.await(h.T, free, tainted())
	h.healthy("Unhealthy", "")
	h.run("rdma link del rxe0")
	h.await(h.T, free, unpublished)
	h.run("rdma link add rxe0 type rxe netdev eth0")
	h.run("rdma link add rxe1 type rxe netdev dummy0")
	h.await(h.T, held, tainted())
	h.await(h.T, free, tainted())
	h.healthy("Healthy", "")
}

// otherNames gives the device that is held another name, and the uverbs number of the
// other one.
func (h *hardware) otherNames() {
	before := inside.Node(h.T, "infiniband_verbs", "rxe1")
	h.run("rdma link del rxe0")
	h.run("rdma link del rxe1")
	h.await(h.T, held, tainted("device-gone"))
	h.run("rdma link add other0 type rxe netdev dummy0")
	h.run("rdma link add rxe0 type rxe netdev eth0")
	h.await(h.T, held, called("ibdev", "other0"))
	h.await(h.T, free, called("ibdev", "rxe0"))
	h.restart("other0", before)
}

func (h *hardware) renamed() {
	h.run("rdma dev set other0 name rxe1")
	h.await(h.T, held, called("ibdev", "rxe1"))
	h.healthy("Healthy", "")
}

// modules unloads the whole RDMA stack, which a socket of the driver's would prevent,
// and loads it again. The devices come back in another order.
func (h *hardware) modules() {
	before := inside.Node(h.T, "infiniband_verbs", "rxe1")
	h.run("modprobe -r rdma_rxe")
	h.await(h.T, held, tainted("device-gone"))
	h.await(h.T, free, unpublished)
	for _, module := range []string{"rdma_ucm", "ib_uverbs", "ib_umad", "rdma_cm", "iw_cm", "ib_cm", "ib_core"} {
		inside.Eventually(h.T, "unload "+module, patience, func() error {
			if _, err := os.Stat("/sys/module/" + module); err != nil {
				return nil
			}
			if r := inside.Run("rmmod", module); r.Code != 0 {
				return fmt.Errorf("rmmod: %s", r.Out)
			}
			return nil
		})
	}
	h.run("modprobe -a ib_uverbs ib_umad rdma_ucm crc32_generic rdma_rxe")
	h.run("rdma link add rxe0 type rxe netdev eth0")
	h.run("rdma link add rxe1 type rxe netdev dummy0")
	h.await(h.T, held, called("ibdev", "rxe1"))
	h.await(h.T, free, called("ibdev", "rxe0"))
	h.restart("rxe1", before)
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
	h.kill()
	inside.Eventually(h.T, "the container runs again with "+node, patience, func() error {
		out, err := kube.Output(h.Context(), "kubectl", "logs", "holder")
		if err == nil && h.restarted() <= h.restarts {
			err = fmt.Errorf("it was not restarted")
		}
		if err == nil && (!strings.Contains(out, "nodes rdma_cm "+node+" \n") || !strings.Contains(out, "devices "+ibdev+" \n")) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
	h.restarts = h.restarted()
}

// kill kills the process of the container.
func (h *hardware) kill() {
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
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			h.Fatal(err)
		}
		return
	}
	h.Fatal("the container's process is not there")
}

func (h *hardware) status() corev1.ContainerStatus {
	h.Helper()
	pod, err := h.client.CoreV1().Pods("default").Get(h.Context(), "holder", metav1.GetOptions{})
	if err != nil || len(pod.Status.ContainerStatuses) != 1 {
		h.Fatalf("status of the pod: %v", err)
	}
	return pod.Status.ContainerStatuses[0]
}

func (h *hardware) restarted() int32 { return h.status().RestartCount }

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

// netnsMode switches to exclusive mode, which raises no event, and back. The device of
// the claim stays.
func (h *hardware) netnsMode() {
	h.run("rdma system set netns exclusive")
	h.await(h.T, held, called("netnsMode", "exclusive", "draining"))
	h.await(h.T, free, unpublished)
	explained := kubectl(h.T, "--namespace", deploy.Namespace, "exec", "daemonset/"+deploy.Release, "--",
		"dra-driver", "explain", "--config", "/etc/rdma.dev/config.yaml", "--host-root", "/host")
	inside.Wants(h.T, "explain", explained, "network namespace mode is exclusive", "rdma system set netns shared")
	inside.Wants(h.T, "the log", driverState(h.Context()), "No RDMA device is offered to new claims")
	inside.Eventually(h.T, "back to shared mode", patience, func() error {
		if r := inside.Run("rdma", "system", "set", "netns", "shared"); r.Code != 0 {
			return fmt.Errorf("rdma system: %s", r.Out)
		}
		return nil
	})
	h.await(h.T, held, called("netnsMode", "shared"))
	h.await(h.T, free, called("netnsMode", "shared"))
}
