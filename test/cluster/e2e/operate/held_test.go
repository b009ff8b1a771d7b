package operate

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// claimFor is a claim of its own for the HCA at an address.
func claimFor(name, address string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: hca.rdma.dev
        selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].?pciBusID.orValue("") == "%s"'}}]
---`, name, address)
}

// TestKubeletLosesItsState: the kubelet loses what it knows of claims while a pod is deleted by force. Therefore no
// call ends the pod's claim. A new claim with the same name must get the HCA of that claim. When the new claim is
// deallocated and not deleted, another claim must get the HCA. Both must get it at the first try, as soon as nothing of
// the pod is left.
func TestKubeletLosesItsState(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(claimFor("own", testbed.AddressOne) + testbed.Pod("app", "resourceClaimName: own"))
	n.Ready("app")
	first := n.ClaimOf("app")

	bed.LoseKubeletState(t, n, "app", func() {
		n.Kubectl("delete", "resourceclaim", "own", "--timeout="+testbed.Patience.String()) // when it is deallocated
	})
	bed.Inside(t, "test", "-e", bed.Record(first)) // nobody has ended it
	n.Apply(claimFor("own", testbed.AddressOne) + testbed.Pod("next", "resourceClaimName: own"))
	n.Ready("next")
	n.Expect("next", "app", testbed.HCAOne)
	second := n.ClaimOf("next")
	test.NotEq(t, first.Metadata.UID, second.Metadata.UID,
		test.Sprintf("the claim is not another one: %v", second.Metadata))
	preparedAtOnce(t, n, "next")
	bed.Gone(t, bed.Record(first))
	bed.Gone(t, first.Spec())

	bed.LoseKubeletState(t, n, "next", func() {
		testbed.Eventually(t, "deallocation of the claim", func() error {
			if out := n.Kubectl("get", "resourceclaim", "own", "-o", "jsonpath={.status.allocation}"); out != "" {
				return fmt.Errorf("it is allocated: %s", out)
			}
			return nil
		})
	})
	bed.Inside(t, "test", "-e", bed.Record(second))
	n.Apply(testbed.RequestFor("one", "hca.rdma.dev", testbed.AddressOne) + testbed.PodFor("other", "one"))
	n.Ready("other")
	n.Expect("other", "app", testbed.HCAOne)
	preparedAtOnce(t, n, "other")
	bed.Gone(t, bed.Record(second))
	bed.Gone(t, second.Spec())
}

// preparedAtOnce asserts that no try to prepare the claims of a pod failed.
func preparedAtOnce(t *testing.T, n *testbed.Namespace, pod string) {
	t.Helper()
	test.StrNotContains(t, n.Kubectl("get", "events", "--field-selector", "involvedObject.name="+pod, "-o", "jsonpath={.items[*].message}"), "in use",
		test.Sprintf("pod %s had to wait", pod))
}
