package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestShares: claims with and without a wish share an HCA; each says what it got.
func TestShares(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("shares")
	n.Ready("one-share", "two-shares")
	var shares []string
	for pod, want := range map[string]map[string]string{
		"one-share":  {"shares": "1", "bandwidth": "0", "handles": "100", "objects": "10k"},
		"two-shares": {"shares": "2", "bandwidth": "25G", "handles": "100", "objects": "10k"},
	} {
		r := n.ClaimOf(pod).Results()[0]
		if r.Device != testbed.SharedStorage {
			t.Errorf("%s has %s, want %s", pod, r.Device, testbed.SharedStorage)
		}
		for name, amount := range want {
			if !testbed.SameQuantity(t, r.ConsumedCapacity[name], amount) {
				t.Errorf("%s consumes %s %s, want %s", pod, name, r.ConsumedCapacity[name], amount)
			}
		}
		n.Expect(pod, "app", r.Device)
		n.Told(pod)
		shares = append(shares, r.ShareID)
	}
	if shares[0] == "" || shares[0] == shares[1] {
		t.Errorf("share IDs %q, want two", shares)
	}
}

// idle writes the manifests of pods with a claim each, as cheap as pods are: the
// sandbox and a program that waits.
func idle(template string, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(idleWith(template, name, 1))
	}
	return b.String()
}

// idleWith is a pod with so many claims of a template.
func idleWith(template, name string, claims int) string {
	var made, used []string
	for i := range claims {
		made = append(made, fmt.Sprintf("{name: hca-%d, resourceClaimTemplateName: %s}", i, template))
		used = append(used, fmt.Sprintf("{name: hca-%d}", i))
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [%s]
  containers: [{name: app, image: "localhost/pause:testbed", imagePullPolicy: Never, resources: {claims: [%s]}}]
---`, name, strings.Join(made, ", "), strings.Join(used, ", "))
}

// TestOldAndNew: pods written for a device plugin run unchanged beside pods with
// claims, and share the same HCA by the same shares.
func TestOldAndNew(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("legacy-rdma-hca")
	n.Example("legacy-rdma-hca-1")
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") + testbed.Pod("new", "resourceClaimTemplateName: share"))
	n.Kubectl("rollout", "status", "deployment/rdma-test", "--timeout="+testbed.Patience.String())
	n.Ready("mofed-test-pod", "new")
	n.Expect("new", "app", testbed.SharedStorage)
	pods := strings.Fields(n.Kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(pods) != 4 {
		t.Fatalf("pods %q, want 4", pods)
	}
	want := bed.HostHCA(t, testbed.SharedStorage)
	for _, pod := range pods {
		r := n.ClaimOf(pod).Results()
		if len(r) != 1 || r[0].Device != testbed.SharedStorage || !testbed.SameQuantity(t, r[0].ConsumedCapacity["shares"], "1") {
			t.Errorf("%s has %+v, want one share of %s", pod, r, testbed.SharedStorage)
		}
		out := n.Kubectl("exec", pod, "--", "sh", "-c", "ls /dev/infiniband; awk '/locked memory/ {print $4}' /proc/1/limits")
		if got, want := strings.Fields(out), []string{"rdma_cm", want.Uverbs, testbed.RaisedLimit(t)}; !slices.Equal(got, want) {
			t.Errorf("%s sees %q, want %q", pod, got, want)
		}
	}
	n.Kubectl("delete", "deployment,pod", "--all", "--grace-period=1", "--wait")
	testbed.Eventually(t, "end of the claims", func() error {
		if left := n.Claims(); len(left) > 0 {
			return fmt.Errorf("claims are left: %v", left)
		}
		return nil
	})
}

// TestOldPodAsksForTwo: two of a resource are two HCAs, not one twice. The node has one.
func TestOldPodAsksForTwo(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(strings.Replace(testbed.ReadFile(t, bed.Checkout.Example("legacy-rdma-hca")), "rdma/hca: 1", "rdma/hca: 2", 1))
	n.Pending("mofed-test-pod")
}

// TestPluginWins: on a node where a device plugin advertises the resource, the
// scheduler counts the plugin's tokens and makes no claim; where it advertises none,
// the driver's classes serve the same pods.
func TestPluginWins(t *testing.T) {
	advertise := func(patch string) {
		bed.Kubectl(t, "patch", "node", "node1", "--subresource=status", "--type=json", "--patch", patch)
	}
	n := bed.Namespace(t)
	old := testbed.ReadFile(t, bed.Checkout.Example("legacy-rdma-hca"))
	advertise(`[{"op": "add", "path": "/status/capacity/rdma~1hca", "value": "1"}, {"op": "add", "path": "/status/allocatable/rdma~1hca", "value": "1"}]`)
	t.Cleanup(func() {
		advertise(`[{"op": "remove", "path": "/status/capacity/rdma~1hca"}, {"op": "remove", "path": "/status/allocatable/rdma~1hca"}]`)
	})
	n.Apply(old)
	n.Ready("mofed-test-pod")
	if claims := n.Claims(); len(claims) > 0 {
		t.Errorf("the pod has a claim: %v", claims)
	}
	n.Apply(strings.Replace(old, "mofed-test-pod", "second", 1))
	n.Event("second", "Insufficient rdma/hca")
	advertise(`[{"op": "replace", "path": "/status/capacity/rdma~1hca", "value": "0"}, {"op": "replace", "path": "/status/allocatable/rdma~1hca", "value": "0"}]`)
	n.Ready("second")
	if r := n.ClaimOf("second").Results(); len(r) != 1 || r[0].Device != testbed.SharedStorage {
		t.Errorf("the second pod has %v", r)
	}
}

// TestRails: the workers of a job are on the rails that their claims name.
func TestRails(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("same-rails")
	n.Ready("worker-0", "worker-1")
	published, seen := bed.Devices(t), map[string]bool{}
	for _, pod := range []string{"worker-0", "worker-1"} {
		for _, r := range n.ClaimOf(pod).Results() {
			if rail := fmt.Sprint("rail", published[r.Device].Attributes["rail"]["int"]); rail != r.Request {
				t.Errorf("%s has %s of %s for %s", pod, r.Device, rail, r.Request)
			}
			seen[r.Device] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("the workers have %v, want four HCAs", seen)
	}
}

// TestOneHCAManyClaims: each container gets what its claims say of an HCA that
// other claims have too, and nothing more.
func TestOneHCAManyClaims(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.Template("small", "shared.hca.rdma.dev", "{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: 1Mi, nodes: [verbs]}") +
		testbed.Template("large", "shared.hca.rdma.dev", "{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: 2Mi, env: [ucx]}") + twoClaims)
	n.Ready("app")
	h := bed.HostHCA(t, testbed.SharedStorage)
	device := "RDMA_DEVICE_" + strings.ToUpper(strings.ReplaceAll(testbed.Storage, "-", "_")) + "=" + h.IBDev
	for container, want := range map[string]testbed.View{
		"small": {Nodes: h.Uverbs, Memlock: "1048576", Env: device},
		"large": {Nodes: "rdma_cm " + h.Uverbs, Memlock: "2097152", Env: device + " UCX_NET_DEVICES=" + h.IBDev + ":1"},
		"both":  {Nodes: "rdma_cm " + h.Uverbs, Memlock: "2097152", Env: device + " UCX_NET_DEVICES=" + h.IBDev + ":1"},
		"none":  {Memlock: "65536"},
	} {
		got := n.Look("app", container)
		if got.Nodes != want.Nodes || got.Memlock != want.Memlock || got.Env != want.Env {
			t.Errorf("container %s sees %+v, want %+v", container, got, want)
		}
	}
}

// twoClaims is a pod with two claims, and containers that name one, the other, both
// and none.
const twoClaims = `
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: small, resourceClaimTemplateName: small}, {name: large, resourceClaimTemplateName: large}]
  containers:
  - &container
    name: small
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    resources: {claims: [{name: small}]}
  - {<<: *container, name: large, resources: {claims: [{name: large}]}}
  - {<<: *container, name: both, resources: {claims: [{name: small}, {name: large}]}}
  - {<<: *container, name: none, resources: {}}
`

// TestOneClaimThreePods: a claim is one share, however many pods use it.
func TestOneClaimThreePods(t *testing.T) {
	needs.Long(t, "TestSharedClaim has two pods of one claim, and TestShares of package podgroups pods of one share")
	n := bed.Namespace(t)
	n.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: shared.hca.rdma.dev}}]}}
---` + testbed.Pod("first", "resourceClaimName: one") + testbed.Pod("second", "resourceClaimName: one") + testbed.Pod("third", "resourceClaimName: one"))
	pods := []string{"first", "second", "third"}
	n.Ready(pods...)
	claims := n.Claims()
	if len(claims) != 1 || len(claims[0].Results()) != 1 {
		t.Fatalf("claims %v, want one with one share", claims)
	}
	for _, pod := range pods {
		n.Expect(pod, "app", claims[0].Results()[0].Device)
	}
	n.Delete("first", "second")
	n.Expect("third", "app", claims[0].Results()[0].Device)
	n.Delete("third")
	bed.Gone(t, claims[0].Spec())
}
