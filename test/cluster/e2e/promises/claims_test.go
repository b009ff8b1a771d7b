package promises

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestTemplate: the two containers of a pod that name a claim made from a template
// see its HCA and nothing else; the one that does not sees nothing. Another pod gets
// another HCA. When the pods go, nothing of theirs is left.
func TestTemplate(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("two-containers")
	n.Apply(strings.ReplaceAll(testbed.ReadFile(t, bed.Checkout.Example("two-containers")), "name: two-containers", "name: another"))
	n.Ready("two-containers", "another")
	claims := n.Claims()
	must.Eq(t, 2, len(claims), must.Sprint("claims"))
	var devices []string
	for _, c := range claims {
		must.Eq(t, 1, len(c.Results()), must.Sprintf("claim %s", c.Metadata.Name))
		device := c.Results()[0].Device
		devices = append(devices, device)
		pod := "another"
		if strings.HasPrefix(c.Metadata.Name, "two-containers") {
			pod = "two-containers"
		}
		n.Expect(pod, "sender", device)
		n.Expect(pod, "receiver", device)
	}
	test.NotEq(t, devices[1], devices[0], test.Sprint("both pods"))
	// What a container reads of its device, by the names that the pod's author knows.
	const file = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/hca/nic/rdma.dev-metadata.json"
	test.True(t, testbed.ContainsAll(n.Sh("two-containers", "sender", "cat "+file), []string{"metadata.resource.k8s.io/", `"ibdev"`, n.ClaimOf("two-containers").Results()[0].Device}),
		test.Sprint("the container reads"))
	if got := n.Look("two-containers", "bystander"); got.Nodes != "" || got.Memlock != "65536" || got.Env != "" {
		t.Errorf("a container without a claim sees %+v", got)
	}
	n.Kubectl("delete", "pods", "--all", "--wait")
	for _, c := range claims {
		bed.Gone(t, c.Spec())
	}
}

// TestDeviceCgroup: also root with CAP_MKNOD opens only the devices of the claim its
// container names; a node made by hand is of no use.
func TestDeviceCgroup(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.Template("one", "hca.rdma.dev", "") + `
apiVersion: v1
kind: Pod
metadata: {name: root}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hca, resourceClaimTemplateName: one}]
  containers:
  - name: app
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    resources: {claims: [{name: hca}]}
  - name: bystander
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
`)
	n.Ready("root")
	mine := bed.HostHCA(t, n.Claims()[0].Results()[0].Device)
	other := "c1" // minor 0xc1: uverbs1
	if mine.Numbers == "e7:c1" {
		other = "c2"
	}
	open := func(container, minor string) string {
		return n.Sh("root", container, fmt.Sprintf("mknod /tmp/node c 231 $((0x%s)) && head -c1 /tmp/node; rm -f /tmp/node", minor))
	}
	_, minor, _ := strings.Cut(mine.Numbers, ":")
	for _, c := range []struct{ container, minor, want string }{
		{"app", minor, "No such device or address"},
		{"app", other, "Operation not permitted"},
		{"bystander", minor, "Operation not permitted"},
	} {
		test.StrContains(t, open(c.container, c.minor), c.want,
			test.Sprintf("%s opens 231:0x%s", c.container, c.minor))
	}
}

// TestSharedClaim: a ResourceClaim used by two containers of one pod and by a second
// pod gives all of them the same HCA, and is prepared as long as one of them lives.
func TestSharedClaim(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("shared-claim")
	n.Ready("shared-first", "shared-second")
	c := n.Claims()[0]
	device := c.Results()[0].Device
	n.Expect("shared-first", "one", device)
	n.Expect("shared-first", "two", device)
	n.Expect("shared-second", "three", device)
	n.Kubectl("delete", "pod", "shared-first", "--wait")
	n.Expect("shared-second", "three", device)
	bed.Inside(t, "test", "-e", c.Spec())
	n.Kubectl("delete", "pod", "shared-second", "--wait")
	bed.Gone(t, c.Spec())
}

// TestSettings: several HCAs in one claim, a selector, a constraint, and parameters
// that change what the container gets.
func TestSettings(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("settings")
	n.Ready("settings")
	var ibdevs, nodes []string
	for _, r := range n.Claims()[0].Results() {
		h := bed.HostHCA(t, r.Device)
		ibdevs, nodes = append(ibdevs, h.IBDev), append(nodes, h.Uverbs)
	}
	slices.Sort(nodes)
	got := n.Look("settings", "trainer")
	if got.Nodes != strings.Join(nodes, " ") || len(nodes) != 2 {
		t.Errorf("nodes %q, want %q without rdma_cm", got.Nodes, nodes)
	}
	test.Eq(t, "4194304", got.Memlock, test.Sprint("locked memory limit"))
	test.StrContains(t, got.Env, "NCCL_IB_HCA=="+strings.Join(ibdevs, ","), test.Sprint("environment"))
	topology := n.Sh("settings", "trainer", `cat "$NCCL_TOPO_FILE"; echo >> "$NCCL_TOPO_FILE"`)
	for _, part := range []string{`<net name="` + ibdevs[0] + `"/>`, `<net name="` + ibdevs[1] + `"/>`, "</system>", "can't create"} {
		test.StrContains(t, topology, part, test.Sprint("NCCL's topology lacks"))
	}
}
