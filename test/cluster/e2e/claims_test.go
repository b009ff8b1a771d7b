package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTemplate: the two containers of a pod that name a claim made from a template
// see its HCA and nothing else; the one that does not sees nothing. Another pod gets
// another HCA. When the pods go, nothing of theirs is left.
func TestTemplate(t *testing.T) {
	n := newNamespace(t)
	n.example("two-containers")
	n.apply(strings.ReplaceAll(readFile(t, checkout.Example("two-containers")), "name: two-containers", "name: another"))
	n.ready("two-containers", "another")
	claims := n.claims()
	if len(claims) != 2 {
		t.Fatalf("%d claims, want 2", len(claims))
	}
	var devices []string
	for _, c := range claims {
		if got := len(c.Status.Allocation.Devices.Results); got != 1 {
			t.Fatalf("claim %s has %d devices, want 1", c.Metadata.Name, got)
		}
		device := c.Status.Allocation.Devices.Results[0].Device
		devices = append(devices, device)
		pod := "another"
		if strings.HasPrefix(c.Metadata.Name, "two-containers") {
			pod = "two-containers"
		}
		n.expect(pod, "sender", device)
		n.expect(pod, "receiver", device)
	}
	if devices[0] == devices[1] {
		t.Errorf("both pods got %s", devices[0])
	}
	if got := n.look("two-containers", "bystander"); got.nodes != "" || got.memlock != "65536" || got.env != "" {
		t.Errorf("a container without a claim sees %+v", got)
	}
	n.kubectl("delete", "pods", "--all", "--wait")
	for _, c := range claims {
		gone(t, c.spec())
	}
}

// TestDeviceCgroup: also root with CAP_MKNOD opens only the devices of the claim its
// container names; a node made by hand is of no use.
func TestDeviceCgroup(t *testing.T) {
	n := newNamespace(t)
	n.apply(template("one", "") + `
apiVersion: v1
kind: Pod
metadata: {name: root}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hca, resourceClaimTemplateName: one}]
  containers:
  - name: app
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"]
    resources: {claims: [{name: hca}]}
  - name: bystander
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"]
`)
	n.ready("root")
	mine := hostHCA(t, n.claims()[0].Status.Allocation.Devices.Results[0].Device)
	other := "c1" // minor 0xc1: uverbs1
	if mine.numbers == "e7:c1" {
		other = "c2"
	}
	open := func(container, minor string) string {
		return n.sh("root", container, fmt.Sprintf("mknod /tmp/node c 231 $((0x%s)) && head -c1 /tmp/node; rm -f /tmp/node", minor))
	}
	_, minor, _ := strings.Cut(mine.numbers, ":")
	for _, c := range []struct{ container, minor, want string }{
		{"app", minor, "No such device or address"},
		{"app", other, "Operation not permitted"},
		{"bystander", minor, "Operation not permitted"},
	} {
		if got := open(c.container, c.minor); !strings.Contains(got, c.want) {
			t.Errorf("%s opens 231:0x%s: %q, want %q", c.container, c.minor, got, c.want)
		}
	}
}

// TestSharedClaim: a ResourceClaim used by two containers of one pod and by a second
// pod gives all of them the same HCA, and is prepared as long as one of them lives.
func TestSharedClaim(t *testing.T) {
	n := newNamespace(t)
	n.example("shared-claim")
	n.ready("shared-first", "shared-second")
	c := n.claims()[0]
	device := c.Status.Allocation.Devices.Results[0].Device
	n.expect("shared-first", "one", device)
	n.expect("shared-first", "two", device)
	n.expect("shared-second", "three", device)
	n.kubectl("delete", "pod", "shared-first", "--wait")
	n.expect("shared-second", "three", device)
	inside(t, "test", "-e", c.spec())
	n.kubectl("delete", "pod", "shared-second", "--wait")
	gone(t, c.spec())
}

// TestSettings: several HCAs in one claim, a selector, a constraint, and parameters
// that change what the container gets.
func TestSettings(t *testing.T) {
	n := newNamespace(t)
	n.example("settings")
	n.ready("settings")
	var ibdevs, nodes []string
	for _, r := range n.claims()[0].Status.Allocation.Devices.Results {
		h := hostHCA(t, r.Device)
		ibdevs, nodes = append(ibdevs, h.ibdev), append(nodes, h.uverbs)
	}
	slices.Sort(nodes)
	got := n.look("settings", "trainer")
	if got.nodes != strings.Join(nodes, " ") || len(nodes) != 2 {
		t.Errorf("nodes %q, want %q without rdma_cm", got.nodes, nodes)
	}
	if got.memlock != "4194304" {
		t.Errorf("locked memory limit %s, want 4 MiB as the claim asks", got.memlock)
	}
	if want := "NCCL_IB_HCA==" + strings.Join(ibdevs, ","); !strings.Contains(got.env, want) {
		t.Errorf("environment %q lacks %q", got.env, want)
	}
}

// TestRequests: a container that names one request of a claim gets that device and
// not the claim's others.
func TestRequests(t *testing.T) {
	n := newNamespace(t)
	n.apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair}
spec:
  spec:
    devices:
      requests:
      - {name: left, exactly: {deviceClassName: hca.rdma.dev}}
      - {name: right, exactly: {deviceClassName: hca.rdma.dev}}
---
apiVersion: v1
kind: Pod
metadata: {name: requests}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hcas, resourceClaimTemplateName: pair}]
  securityContext: {runAsUser: 1000}
  containers:
  - name: left
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"]
    resources: {claims: [{name: hcas, request: left}]}
  - name: right
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"]
    resources: {claims: [{name: hcas, request: right}]}
`)
	n.ready("requests")
	for _, r := range n.claims()[0].Status.Allocation.Devices.Results {
		n.expect("requests", r.Request, r.Device)
	}
}

// TestFirstAvailable: the device of a subrequest reaches a container that names the
// request.
func TestFirstAvailable(t *testing.T) {
	n := newNamespace(t)
	n.example("first-available")
	n.ready("first-available")
	r := n.claims()[0].Status.Allocation.Devices.Results[0]
	if r.Request != "nic/whole" {
		t.Errorf("request %q; the bundled host has no VF, want nic/whole", r.Request)
	}
	n.expect("first-available", "app", r.Device)
}

// gone waits until a file of the node is gone.
func gone(t *testing.T, path string) {
	t.Helper()
	eventually(t, "removal of "+path, func() error {
		if _, err := output("test", "!", "-e", path); err != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}
