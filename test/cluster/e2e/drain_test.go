package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// deployment wants one HCA of its own.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  selector: {matchLabels: {app: server}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      resourceClaims: [{name: hca, resourceClaimTemplateName: one}]
      containers:
      - name: app
        image: busybox:1.37
        command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
        securityContext: {runAsUser: 1000}
        resources: {claims: [{name: hca}]}
`

// TestDrain: a running pod stays on a drained HCA, and keeps its container. --evict moves it to another HCA, as the
// container itself says. After undrain the HCA is given out again. Package plugin has the rest.
func TestDrain(t *testing.T) {
	n, plugin := bed.Namespace(t), bed.Plugin()
	busIDs := map[string]string{testbed.HCAOne: testbed.AddressOne, testbed.HCAOther: testbed.AddressOther}
	either := strings.ReplaceAll(testbed.RequestFor("one", "hca.rdma.dev", "BUS"), `== "BUS"`, fmt.Sprintf(`in ["%s", "%s"]`, testbed.AddressOne, testbed.AddressOther))
	n.Apply(either + deployment)
	n.Kubectl("rollout", "status", "deployment/server", "--timeout="+testbed.Patience.String())
	first := serverOf(t, n)
	drained := n.ClaimOf(first.Metadata.Name).Results()[0]
	t.Cleanup(func() { plugin.Run(t, n.Name, "undrain", drained.Pool) })

	plugin.Run(t, n.Name, "drain", drained.Pool, drained.Device, "--reason=cable 17")
	n.Apply(testbed.RequestFor("this-one", "hca.rdma.dev", busIDs[drained.Device]) + testbed.PodFor("late", "this-one"))
	n.Pending("late")
	if now := serverOf(t, n); now.Metadata.UID != first.Metadata.UID ||
		now.Status.ContainerStatuses[0].ContainerID != first.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the pod was %+v and is %+v", first, now)
	}
	n.Expect(first.Metadata.Name, "app", drained.Device)

	plugin.Run(t, n.Name, "drain", drained.Pool, drained.Device, "--evict", "--yes")
	var second server
	testbed.Eventually(t, "another pod of the deployment", func() error {
		if _, err := bed.Output("kubectl", "--namespace", n.Name, "get", "pod", first.Metadata.Name); err == nil {
			return fmt.Errorf("pod %s is still there", first.Metadata.Name)
		}
		out, err := bed.Output("kubectl", "--namespace", n.Name, "rollout", "status", "deployment/server", "--timeout=1s")
		if err == nil && !strings.Contains(out, "successfully rolled out") {
			err = fmt.Errorf("rollout status: %s", out)
		}
		return err
	})
	second = serverOf(t, n)
	other := n.ClaimOf(second.Metadata.Name).Results()[0].Device
	if busIDs[other] == "" || other == drained.Device {
		t.Errorf("the new pod has %s, want the other one than %s", other, drained.Device)
	}
	n.Expect(second.Metadata.Name, "app", other)

	plugin.Run(t, n.Name, "undrain", drained.Pool, drained.Device)
	n.Ready("late")
	n.Expect("late", "app", drained.Device)
}

// server is a pod of the deployment.
type server struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		ContainerStatuses []struct{ ContainerID string }
	}
}

// serverOf returns the only pod of the deployment.
func serverOf(t *testing.T, n *testbed.Namespace) server {
	t.Helper()
	var list struct{ Items []server }
	must.NoError(t, json.Unmarshal([]byte(n.Kubectl("get", "pods", "-l", "app=server", "-o", "json")), &list))
	if len(list.Items) != 1 {
		t.Fatalf("%d pods of the deployment: %+v", len(list.Items), list.Items)
	}
	return list.Items[0]
}
