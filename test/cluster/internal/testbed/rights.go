package testbed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// DriverToken is a token bound to the driver's pod, as the pod itself has one.
func (b *Bed) DriverToken(t *testing.T) string {
	t.Helper()
	name := strings.TrimSpace(b.Kubectl(t, "--namespace", deploy.Namespace, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}"))
	return strings.TrimSpace(b.Kubectl(t, "--namespace", deploy.Namespace, "create", "token", deploy.Release, "--bound-object-kind", "Pod", "--bound-object-name", name))
}

// AsToken are the arguments of kubectl for who has a token only.
func AsToken(token string) []string {
	return []string{"--kubeconfig=/dev/null", "--server=https://10.96.0.1:443", "--insecure-skip-tls-verify", "--token=" + token}
}

// ClaimStatusRights is the test that with the token of a driver's pod one can tell of
// the devices of a claim in its status, and change nothing else of it. Refusal is what
// the API server says to the latter.
func (b *Bed) ClaimStatusRights(t *testing.T, refusal string) {
	n := b.Namespace(t)
	c := n.Running("app")
	token, device := b.DriverToken(t), c.Results()[0].Device
	told := func(device, pool string) string {
		return fmt.Sprintf("devices: [{driver: rdma.dev, pool: %s, device: %s}]", pool, device)
	}
	for _, tc := range []struct{ status, want string }{
		{told(device, "node1"), ""},
		{told(device, "node2"), "must be an allocated device"},
		{told("another", "node1"), "must be an allocated device"},
		{"reservedFor: [{resource: pods, name: other, uid: other}]", refusal},
	} {
		manifest := "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " + c.Metadata.Name + "}\nstatus: {" + tc.status + "}"
		args := append(AsToken(token), "--namespace", n.Name, "apply", "--server-side", "--force-conflicts", "--subresource=status",
			"--dry-run=server", "--validate=false", "--field-manager=e2e", "-f", "-")
		if out, err := b.KubectlInput(t, manifest, args...); (err == nil) != (tc.want == "") || !strings.Contains(out, tc.want) {
			t.Errorf("%s: want %q, got %v: %s", tc.status, tc.want, err, out)
		}
	}
}
