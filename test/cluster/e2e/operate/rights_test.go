package operate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// account is the driver's user.
const account = "system:serviceaccount:" + deploy.Namespace + ":" + deploy.Release

// TestRights: the API server grants the driver what the chart's roles say, and no
// more than it grants everyone.
func TestRights(t *testing.T) {
	shared := []string{
		"events [create patch]", "nodes [get]", "resourceclaims.resource.k8s.io [get]", "resourceclaims.resource.k8s.io/driver [rdma.dev] [associated-node:patch associated-node:update]",
		"resourceclaims.resource.k8s.io/status [patch update]", "resourceslices.resource.k8s.io [list watch create update delete]",
	}
	for namespace, want := range map[string][]string{
		"kube-system": shared,
		"default":     shared,
	} {
		const nobody = "system:serviceaccount:default:nobody"
		everyone := rights(t, namespace, nobody, "system:serviceaccounts", "system:authenticated")
		got := slices.DeleteFunc(rights(t, namespace, account, "system:serviceaccounts", "system:authenticated"),
			func(right string) bool { return slices.Contains(everyone, right) })
		test.SliceEqOp(t, want, got,
			test.Sprintf("in namespace %s the driver may:\n%s\nwant:\n%s", namespace, strings.Join(got, "\n"), strings.Join(want, "\n")))
	}
}

// rights lists what a user with these groups may do in a namespace, without URLs and
// without what everyone may ask about himself.
func rights(t *testing.T, namespace, user string, groups ...string) []string {
	t.Helper()
	args := []string{"auth", "can-i", "--list", "--no-headers", "--namespace", namespace, "--as", user}
	for _, group := range groups {
		args = append(args, "--as-group", group)
	}
	var got []string
	for line := range strings.Lines(bed.Kubectl(t, args...)) {
		resource, rest, _ := strings.Cut(line, " ")
		if resource == "" || strings.HasPrefix(resource, "self") {
			continue
		}
		where := strings.ReplaceAll(strings.Join(strings.Fields(rest), " "), "[] ", "") // names and URLs, mostly none
		got = append(got, resource+" "+where)
	}
	slices.Sort(got)
	return got
}

// TestNodeSlices: with the token of a driver's pod one can write slices of its own
// node, pool and driver only; a token without a pod is good for none. Each field is in test/cluster/policies.
func TestNodeSlices(t *testing.T) {
	bound := bed.DriverToken(t)
	loose := strings.TrimSpace(bed.Kubectl(t, "--namespace", deploy.Namespace, "create", "token", deploy.Release))
	slice := func(driver, where, pool string) string {
		return fmt.Sprintf("apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: e2e}\n"+
			"spec: {driver: %s, %s, pool: {name: %s, generation: 1, resourceSliceCount: 1}}\n", driver, where, pool)
	}
	as := func(token, manifest string, verb ...string) (string, error) {
		return bed.KubectlInput(t, manifest, append(append(testbed.AsToken(token), verb...), "-f", "-")...)
	}
	for _, tc := range []struct{ token, manifest, want string }{
		{bound, slice("rdma.dev", "nodeName: node1", "node1"), ""},
		{loose, slice("rdma.dev", "nodeName: node1", "node1"), "names no node"},
		{bound, slice("rdma.dev", "nodeName: node1", "node2"), "may not write to pool node2"},
		{bound, slice("rdma.dev", "nodeName: node2", "node2"), "may not write a ResourceSlice of another node"},
		{bound, slice("rdma.dev", "allNodes: true", "node1"), "may not write a ResourceSlice of another node"},
		{bound, slice("gpu.example.com", "nodeName: node1", "node1"), "of driver gpu.example.com"},
	} {
		if out, err := as(tc.token, tc.manifest, "create", "--dry-run=server"); (err == nil) != (tc.want == "") || !strings.Contains(out, tc.want) {
			t.Errorf("want %q, got %v: %s\n%s", tc.want, err, out, tc.manifest)
		}
	}
	foreign := slice("rdma.dev", "nodeName: node2", "node2")
	if out, err := bed.KubectlInput(t, foreign, "create", "-f", "-"); err != nil {
		t.Fatalf("an administrator may not write a slice: %s", out)
	}
	t.Cleanup(func() { bed.Kubectl(t, "delete", "resourceslice", "e2e") })
	if out, err := as(bound, foreign, "delete"); err == nil || !strings.Contains(out, "of another node") {
		t.Errorf("delete of another node's slice: %v: %s", err, out)
	}
}

// TestEventRights: with the token of a driver's pod one can write events of its own, about what
// it has to do with, in any namespace.
func TestEventRights(t *testing.T) {
	n, token := bed.Namespace(t), bed.DriverToken(t)
	event := func(component, host, kind string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: e2e, namespace: %s}\ntype: Normal\nreason: Test\nsource: {component: %s, host: %s}\n"+
			"involvedObject: {kind: %s, namespace: %s, name: x}\n", n.Name, component, host, kind, n.Name)
	}
	for _, tc := range []struct{ manifest, want string }{
		{event("rdma.dev", "node1", "Pod"), ""},
		{event("rdma.dev", "node1", "ResourceClaim"), ""},
		{event("kubelet", "node1", "Pod"), "may write events of its own only"},
		{event("rdma.dev", "node2", "Pod"), "may write events of its own only"},
		{event("rdma.dev", "node1", "Secret"), "about nodes, claims and pods only"},
	} {
		out, err := bed.KubectlInput(t, tc.manifest, append(testbed.AsToken(token), "create", "--dry-run=server", "-f", "-")...)
		if (err == nil) != (tc.want == "") || !strings.Contains(out, tc.want) {
			t.Errorf("want %q, got %v: %s\n%s", tc.want, err, out, tc.manifest)
		}
	}
}

// TestClaimStatusRights: since 1.36 Kubernetes itself keeps who tells of devices from
// the rest of a claim's status.
func TestClaimStatusRights(t *testing.T) { bed.ClaimStatusRights(t, "resourceclaims/binding") }
