package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestHelmTest: helm test says that a pod gets an HCA, or why not and what to do. It leaves nothing but a failed check.
func TestHelmTest(t *testing.T) {
	t.Run("no device is free", func(t *testing.T) {
		bed.Configure(t, "testDeviceClasses: [hca.rdma.dev]\n"+testbed.HGXValues)
		n := bed.Namespace(t)
		all := strings.Replace(testbed.Template("all", "hca.rdma.dev", ""),
			"deviceClassName:", "allocationMode: All, deviceClassName:", 1)
		n.Apply(all + testbed.Pod("greedy", "resourceClaimTemplateName: all"))
		n.Ready("greedy")
		fails(t, "the driver is ready on 1 node", "the test pod is not scheduled", "cannot allocate all claims",
			"kubectl rdma claims")
	})
	bed.Configure(t, "lockedMemory: {limit: '"+testbed.RaisedLimit(t)+"'}\n"+testbed.HGXValues)
	passes(t)
}

// helmTest runs helm test, and returns all that it prints.
func helmTest(t *testing.T) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := bed.Command(t.Context(), "helm", "test", deploy.Release, "--namespace", deploy.Namespace)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := bed.Run(cmd)
	return out.String(), err
}

func passes(t *testing.T) {
	t.Helper()
	out, err := helmTest(t)
	wants := []string{"ok: the driver is ready on 1 node", "has an HCA: uverbs", "Phase:          Succeeded"}
	if err != nil || !testbed.ContainsAll(out, wants) {
		t.Fatalf("helm test: %v\n%s", err, out)
	}
	t.Log(out)
	left(t, "")
}

// fails runs helm test, which must fail with all the words, and removes the failed check.
func fails(t *testing.T, words ...string) {
	t.Helper()
	out, err := helmTest(t)
	if err == nil || !testbed.ContainsAll(out, words) {
		t.Errorf("helm test: %v, want all of %q in\n%s", err, words, out)
	}
	t.Log(out)
	left(t, "pod/"+deploy.Release+"-test\n")
	bed.Kubectl(t, "--namespace", deploy.Namespace, "delete", "pod", deploy.Release+"-test")
}

// left waits until nothing of the test is there but some objects.
func left(t *testing.T, want string) {
	t.Helper()
	testbed.Eventually(t, "end of the test's objects", func() error {
		const kinds = "pods,replicasets,resourceclaims,resourceclaimtemplates,serviceaccounts,roles,rolebindings," +
			"clusterroles,clusterrolebindings"
		out, err := bed.Output("sh", "-c", `kubectl --namespace "$0" get --output name --ignore-not-found "$1" |
			grep -e "$0-test" || true`, deploy.Release, kinds)
		if err == nil && out != want {
			err = fmt.Errorf("there is %q, want %q", out, want)
		}
		return err
	})
}
