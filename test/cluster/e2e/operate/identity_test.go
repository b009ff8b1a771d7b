package operate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestNodeCreatedAnew: after the Node object was deleted and created again, the slices are owned by the new one within a
// minute, the running pod keeps its claim, and an event says what happened. With TEST_LONG the Node stays away for a
// while, and kubelet and driver restart. After 40 s without a Node, Kubernetes deletes its pods.
func TestNodeCreatedAnew(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	const podsEnd = 40 * time.Second // the quarantine of the garbage collector of pods
	type loss struct {
		away    time.Duration
		restart bool
	}
	cases := []loss{{}}
	if needs.IsLong() {
		for _, away := range []time.Duration{5 * time.Second, 20 * time.Second, time.Minute} {
			cases = append(cases, loss{away, false}, loss{away, true})
		}
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%v restart %v", tc.away, tc.restart), func(t *testing.T) {
			recreateNode(t, tc.away)
			if tc.restart {
				must.NoError(t, bed.Restart(t.Context(), cluster.Kubelet))
				if tc.away < podsEnd { // else it is a new one
					bed.Inside(t, "kill", "-KILL", bed.DriverProcess(t))
				}
			}
			began := time.Now()
			uid := bed.Kubectl(t, "get", "nodes", "-o", "jsonpath={.items[0].metadata.uid}")
			testbed.Eventually(t, "slices of the new Node", func() error {
				owners, err := bed.Output("kubectl", "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev",
					"-o", "jsonpath={.items[*].metadata.ownerReferences[*].uid}")
				if err == nil && (owners == "" || strings.TrimSpace(strings.ReplaceAll(owners, uid, "")) != "") {
					err = fmt.Errorf("the owners are %q, want %s", owners, uid)
				}
				return err
			})
			t.Logf("published again %v after the Node was there", time.Since(began).Round(100*time.Millisecond))
			if _, err := bed.Output("kubectl", "--namespace", n.Name, "get", "pod", "app"); tc.away > podsEnd && err != nil {
				bed.Gone(t, bed.Record(c))
				c = n.Running("app")
				return
			}
			n.Expect("app", "app", c.Results()[0].Device)
			if now := n.ClaimOf("app"); now.Metadata.UID != c.Metadata.UID {
				t.Errorf("the pod has claim %v, and had %v", now.Metadata, c.Metadata)
			}
			if !tc.restart {
				testbed.Eventually(t, "event of the Node", func() error {
					said, err := bed.Output("kubectl", "get", "events", "-n", "default", "--field-selector", "reason=RDMAPublishedAgain", "-o", "jsonpath={.items[*].message}")
					if err == nil && strings.Count(said, "UID "+uid+",") != 1 {
						err = fmt.Errorf("the events say %q, want once that the Node is now %s", said, uid)
					}
					return err
				})
			}
		})
	}
	bed.Kubectl(t, "wait", "--for=condition=Ready", "node", "--all", "--timeout="+testbed.Patience.String())
	n.Apply(testbed.PodFor("next", "one"))
	n.Ready("next")
}

// TestEtcdRestored: after a backup of a minute ago was restored, the slices are those of the host within a minute, the
// pod of then keeps its claim, nothing of a pod that the server has forgotten is left, and an event says what happened.
func TestEtcdRestored(t *testing.T) {
	needs.Long(t, "its backup is a minute old; TestRestoredBackup of pkg/dra/publisher shows what the driver does")
	n := bed.Namespace(t)
	c := n.Running("app")
	before := bed.Devices(t)
	var lost testbed.Claim
	bed.RestoreEtcd(t, func() {
		saved := time.Now()
		bed.Kubectl(t, "delete", "resourceslices", "--field-selector", "spec.driver=rdma.dev")
		lost = n.Running("lost")
		time.Sleep(time.Minute - time.Since(saved)) // the backup is this old: the time is the case
	})
	began := time.Now()
	testbed.Eventually(t, "devices of before", func() error {
		if now := bed.Devices(t); len(now) != len(before) {
			return fmt.Errorf("%d devices are published, and %d were", len(now), len(before))
		}
		return nil
	})
	testbed.Eventually(t, "event of the restoration", func() error {
		said, err := bed.Output("kubectl", "get", "events", "-n", "default", "--field-selector", "reason=RDMAPublishedAgain", "-o", "jsonpath={.items[*].message}")
		if err == nil && strings.Count(said, "restoration of a backup") != 1 {
			err = fmt.Errorf("the events say %q", said)
		}
		return err
	})
	t.Logf("told %v after the API server was there", time.Since(began).Round(100*time.Millisecond))
	n.Expect("app", "app", c.Results()[0].Device)
	if now := n.ClaimOf("app"); now.Metadata.UID != c.Metadata.UID {
		t.Errorf("the pod has claim %v, and had %v", now.Metadata, c.Metadata)
	}
	bed.Gone(t, lost.Spec())
	bed.Gone(t, bed.Record(lost))
	n.Apply(testbed.PodFor("next", "one"))
	n.Ready("next")
}

// recreateNode deletes the Node object, and creates it again with its status after a while.
func recreateNode(t *testing.T, away time.Duration) {
	t.Helper()
	var node struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
		Status     map[string]any `json:"status,omitempty"`
	}
	name := bed.Kubectl(t, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	must.NoError(t, json.Unmarshal([]byte(bed.Kubectl(t, "get", "node", name, "-o", "json")), &node))
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(node.Metadata, field)
	}
	whole, err := json.Marshal(node)
	must.NoError(t, err)
	status, err := json.Marshal(map[string]any{"status": node.Status})
	must.NoError(t, err)
	file := filepath.Join(t.TempDir(), "status.json")
	must.NoError(t, os.WriteFile(file, status, 0o600))
	bed.Kubectl(t, "delete", "node", name)
	time.Sleep(away) // this long the Node is away: the time is the case
	if out, err := bed.KubectlInput(t, string(whole), "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bed.Kubectl(t, "patch", "node", name, "--subresource=status", "--type=merge", "--patch-file", file)
}
