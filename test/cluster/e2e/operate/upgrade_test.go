package operate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// load is a job of pods that each have a share of an HCA, look for its node, and end.
const load = `
apiVersion: batch/v1
kind: Job
metadata: {name: load}
spec:
  completions: %d
  parallelism: 8
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      resourceClaims: [{name: hca, resourceClaimTemplateName: share}]
      containers:
      - name: app
        image: busybox:1.37
        command: [sh, -c, "test -c /dev/infiniband/uverbs* && sleep 1"]
        securityContext: {runAsUser: 1000}
        resources: {claims: [{name: hca}]}
`

// TestSeamlessUpgrade: during rolling updates of the driver pods start and stop, a hundred during ten in a long run.
// None fails, and for none does the kubelet have to try twice, which would cost it a
// minute. A pod that lives through all updates restarts its container meanwhile, and the last
// driver ends the claim that the first one prepared.
func TestSeamlessUpgrade(t *testing.T) {
	updates, passengers := 2, 20
	if needs.IsLong() {
		updates, passengers = 10, 100
	}
	n := bed.Namespace(t)
	c := n.Running("app")
	pods := testbed.Follow[pod](bed, t, "--namespace", n.Name, "pods", "--selector=job-name=load")
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") + fmt.Sprintf(load, passengers))
	begin := time.Now()
	updated := make(chan error, 1)
	go func() { updated <- update(updates) }()
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)

	starts := journeys(t, pods, passengers)
	t.Logf("%d pods have ended after %v", passengers, time.Since(begin).Round(time.Second))
	must.NoError(t, <-updated)
	t.Logf("%d updates are done after %v", updates, time.Since(begin).Round(time.Second))
	slices.Sort(starts)
	t.Logf("from the creation of a pod to its running container: p50 %v, p90 %v, max %v",
		starts[len(starts)/2], starts[len(starts)*9/10], starts[len(starts)-1])
	n.Kubectl("wait", "--for=condition=Complete", "job/load", "--timeout="+testbed.Patience.String())
	test.Eq(t, "", n.Kubectl("get", "events", "--field-selector=reason=FailedPrepareDynamicResources", "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}"),
		test.Sprint("the kubelet had to try again"))

	n.Expect("app", "app", c.Results()[0].Device)
	n.Delete("app")
	testbed.Eventually(t, "end of all claims", func() error {
		out, err := bed.Output("sh", "-c", "ls /var/run/cdi "+bed.StateDir("claims"))
		if err == nil && strings.Contains(out, ".json") {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})
	oneDriver(t)
}

// update replaces the driver by another one, again and again.
func update(times int) error {
	for range times {
		for _, args := range [][]string{{"restart", testbed.DaemonSet}, {"status", testbed.DaemonSet, "--timeout=" + testbed.Patience.String()}} {
			if out, err := bed.Output("kubectl", append([]string{"--namespace", deploy.Namespace, "rollout"}, args...)...); err != nil {
				return fmt.Errorf("update the driver: %w: %s", err, out)
			}
		}
	}
	return nil
}

// pod is what the test reads of a pod.
type pod struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase             string
		ContainerStatuses []struct {
			State struct{ Running, Terminated *struct{} }
		}
	}
}

// journeys waits until so many pods have ended well, and returns how long each took from
// its creation until its container ran.
func journeys(t *testing.T, pods <-chan testbed.Change[pod], count int) []time.Duration {
	t.Helper()
	created, started, ended := map[string]time.Time{}, map[string]time.Duration{}, map[string]bool{}
	for deadline := time.After(testbed.Patience); len(ended) < count; {
		select {
		case <-deadline:
			t.Fatalf("%d of %d pods have ended, %d have started", len(ended), count, len(started))
		case c, ok := <-pods:
			name := c.Object.Metadata.Name
			switch {
			case !ok:
				t.Fatal("kubectl no longer follows the pods")
			case c.Object.Status.Phase == "Failed":
				t.Fatalf("pod %s failed", name)
			case c.Object.Status.Phase == "Succeeded":
				ended[name] = true
			}
			if created[name].IsZero() {
				created[name] = c.At
			}
			for _, s := range c.Object.Status.ContainerStatuses {
				if _, known := started[name]; !known && (s.State.Running != nil || s.State.Terminated != nil) {
					started[name] = c.At.Sub(created[name]).Round(time.Millisecond)
				}
			}
		}
	}
	var out []time.Duration
	for _, d := range started {
		out = append(out, d)
	}
	return out
}
