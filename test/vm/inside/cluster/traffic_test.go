package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// containers renders containers of a pod in which nobody has a privilege.
func containers(claim string, scripts map[string]string) string {
	var b strings.Builder
	for _, name := range []string{"receiver", "sender", "bystander"} {
		script, ok := scripts[name]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, `
  - name: %s
    image: %s
    imagePullPolicy: Never
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    command: [sh, -c, %q]`, name, vm.ToolsImage, script)
		if claim != "" && name != "bystander" {
			fmt.Fprintf(&b, "\n    resources: {claims: [{name: %s}]}", claim)
		}
	}
	return b.String()
}

// pod renders a pod of an ordinary user.
func pod(name, claim, containers string) string {
	claims := ""
	if claim != "" {
		claims = fmt.Sprintf("  resourceClaims: [{name: hca, resourceClaimName: %s}]\n", claim)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
%s  containers:%s
`, name, claims, containers)
}

// oneHCA renders a claim on one HCA; the selector may be empty.
func oneHCA(name, selector string) string {
	if selector != "" {
		selector = fmt.Sprintf("\n        selectors: [{cel: {expression: %q}}]", selector)
	}
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: hca.rdma.dev%s
---`, name, selector)
}

const (
	// look says what a container has.
	look = `
echo "user $(id -u) capabilities $(awk '/CapEff/ {print $2}' /proc/self/status)"
echo "users" $(cat /proc/self/uid_map)
echo "memlock soft $(ulimit -S -l) hard $(ulimit -H -l)"
echo "nodes $(ls /dev/infiniband 2>/dev/null | tr '\n' ' ')"
device=$(ibv_devices | tail -n +3 | awk '{printf "%s ", $1}'); echo "devices $device"
device=${device% }
`
	// await waits for a listener without a connection, which would take the place of
	// the client's.
	await = `
await() { n=0; until netstat -ltn | grep -q ":$1 "; do n=$((n+1)); [ $n -lt 900 ] || { echo "nobody listens on $1"; exit 1; }; sleep 0.1; done; }
`
	receive = "set -e" + look + `
timeout 120 ibv_rc_pingpong -d $device -g 1 -s 1048576 -n 5
timeout 120 ib_write_bw -d $device -x 1 -u 20 -F -n 50 -s 1048576
echo done`
	send = "set -e" + look + await + `
await 18515; timeout 120 ibv_rc_pingpong -d $device -g 1 -s 1048576 -n 5 127.0.0.1
await 18515; timeout 120 ib_write_bw -d $device -x 1 -u 20 -F -n 50 -s 1048576 127.0.0.1
echo done`
	// tryAll tries to open whatever is there, and to use a device that it was not given.
	tryAll = look + `
for node in /dev/infiniband/*; do [ -e $node ] && echo present $node; done
ibv_rc_pingpong -d rxe0 -g 1; echo "pingpong status $?"`
)

// moved asserts that a soft-RoCE device has sent that many bytes at least: perftest cannot tell
// the speed where the clock is emulated. A packet carries 1024 bytes, the MTU of the devices
// here.
func moved(t *testing.T, ibdev string, bytes int) {
	t.Helper()
	packets := inside.SentPackets(t, ibdev)
	test.GreaterEq(t, bytes/1024, packets,
		test.Sprintf("%s has sent %d packets, which cannot hold %d bytes", ibdev, packets, bytes))
}

// The driver publishes what the kernel has.
func TestSlice(t *testing.T) {
	got := kubectl(t, "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev", "-o",
		"jsonpath={range .items[*].spec.devices[*]}{.name} {.attributes.ibdev.string} {.attributes.protocol.string}{\"\\n\"}{end}")
	inside.Wants(t, "the slice", got, "soft-rxe-eth0 rxe0 roce\n", "soft-rxe-dummy0 rxe1 roce\n")
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("%d devices, want 2:\n%s", n, got)
	}
}

// The main job: one pod, two containers, one claim on rxe0; a second pod gets the other
// device while the first one still has its own. The containers are user 1000, without
// capabilities, and containerd's locked memory limit is 64 KiB. Pod Security is at its
// strictest level, and the second pod is in a user namespace of its own.
func TestTraffic(t *testing.T) {
	kubectl(t, "label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() {
		if _, err := kube.Output(context.Background(), "kubectl", "label", "namespace", "default", "pod-security.kubernetes.io/enforce-"); err != nil {
			t.Error(err)
		}
	})
	apply(t, oneHCA("first", `device.attributes["rdma.dev"].ibdev == "rxe0"`)+
		pod("first", "first", containers("hca", map[string]string{"receiver": receive, "sender": send, "bystander": tryAll})))
	kubectl(t, "wait", "--for=jsonpath={.status.reservedFor[0].name}=first", "resourceclaim/first", "--timeout=180s")
	second := pod("second", "second", containers("hca", map[string]string{"receiver": receive, "sender": send}))
	apply(t, oneHCA("second", "")+strings.Replace(second, "spec:", "spec:\n  hostUsers: false", 1))
	for name, ibdev := range map[string]string{"first": "rxe0", "second": "rxe1"} {
		t.Run(name, func(t *testing.T) {
			succeeds(t, name, "receiver", "sender")
			moved(t, ibdev, 50<<20)
			for _, container := range []string{"receiver", "sender"} {
				out := kubectl(t, "logs", name, "-c", container)
				t.Logf("%s/%s:\n%s", name, container, out)
				inside.Wants(t, name+"/"+container, out,
					"user 1000 capabilities 0000000000000000", "memlock soft unlimited hard unlimited",
					"nodes rdma_cm "+inside.Node(t, "infiniband_verbs", ibdev)+" \n", "devices "+ibdev+" \n",
					"5 iters in", "BW average", "done")
			}
		})
	}
	test.StrNotContains(t, kubectl(t, "logs", "second", "-c", "sender"), "users 0 0 ",
		test.Sprint("the second pod has the users of the host"))
	t.Run("a container beside them without the claim", func(t *testing.T) {
		opensNothing(t, kubectl(t, "logs", "first", "-c", "bystander"))
	})
}

// The same pod without the claim can open nothing.
func TestWithoutClaim(t *testing.T) {
	apply(t, pod("without", "", containers("", map[string]string{"sender": tryAll})))
	succeeds(t, "without", "sender")
	opensNothing(t, kubectl(t, "logs", "without", "-c", "sender"))
}

func opensNothing(t *testing.T, out string) {
	t.Helper()
	t.Log(out)
	inside.Wants(t, "the container", out, "memlock soft 64 ", "nodes \n", "devices \n", "IB device rxe0 not found", "pingpong status 1")
	test.StrNotContains(t, out, "present", test.Sprint("there is a node"))
}

// When the pods are gone their devices are free, and nothing of theirs is left.
func TestUnprepare(t *testing.T) {
	kubectl(t, "delete", "pods,resourceclaims", "--all", "--wait", "--timeout=120s")
	if _, err := kube.Output(t.Context(), "sh", "-c", "for i in $(seq 600); do ls /var/run/cdi/rdma.dev-claim_* >/dev/null 2>&1 || exit 0; sleep 0.1; done; ls /var/run/cdi; exit 1"); err != nil {
		t.Errorf("specs of claims are left: %v", err)
	}
}
