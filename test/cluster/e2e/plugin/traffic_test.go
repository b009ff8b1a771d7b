package plugin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// TestTraffic: kubectl rdma test creates a Job that owns a pod and an allocated claim for each node, with the rights of
// examples/test-nodes.yaml alone, and needs each of them. These nodes have no kubelet, so no pod runs, and the command
// says so. Whenever it is interrupted, nothing is left. When it is killed, the controllers of Kubernetes remove the
// rest at the Job's deadline.
func TestTraffic(t *testing.T) {
	t.Parallel()
	b := newBed(t, "", "exclusive")
	file := filepath.Join(t.TempDir(), "second.json")
	data, err := os.ReadFile(objects + "exclusive.json")
	must.NoError(t, err)
	second := strings.NewReplacer(`"train"`, `"second"`, `-train"`, `-second"`).Replace(string(data))
	must.NoError(t, os.WriteFile(file, []byte(second), 0o644))
	b.nodes(file)
	const in = "rdma-test"
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	b.run("kubectl", "apply", "-f", checkout.Example("test-nodes"))
	b.endPods(in)
	b.run("kubectl", "label", "namespace", in, "pod-security.kubernetes.io/enforce=restricted")
	args := func(more ...string) []string {
		return append([]string{
			"kubectl-rdma", "test", "nodes", "--selector=kubernetes.io/hostname", "-n", in, "--image=none",
			"--as=system:serviceaccount:rdma-test:rdma-test",
		}, more...)
	}
	b.leastRights(args("--wait=1s"), in)
	out, err := b.command(args("--wait=3s")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the test's pod is Pending") {
		t.Errorf("pods that do not run: %v\n%s", err, out)
	}
	b.nothingLeft(in, "a test whose pods do not run")

	// A pod that waits for a device goes first.
	w := waiting{Claim: devices(request("nic", "hca.rdma.dev", selector("false")), "")}
	b.apply(w.manifest("first"))
	out, err = b.command(args()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out),
		"waiting for RDMA devices: 1 pod: default/first; nothing was created") {
		t.Errorf("beside a pod that waits: %v\n%s", err, out)
	}
	b.run("kubectl", "delete", "pod", "first", "--now")

	random := rand.New(rand.NewPCG(7, 8))
	interruptions := 2
	if needs.IsLong() {
		interruptions = 20
	}
	for i := range interruptions {
		cmd := b.command(args()...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		must.NoError(t, cmd.Start())
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		_ = cmd.Process.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[i%2])
		test.Error(t, cmd.Wait(), test.Sprintf("interrupted, it succeeds: %s", &said))
		b.nothingLeft(in, fmt.Sprintf("interruption %d: %s", i, &said))
	}

	cmd := b.command(args()...)
	must.NoError(t, cmd.Start())
	b.until("a test with allocated claims", func() bool {
		return len(strings.Fields(b.run("kubectl", "get", "resourceclaims", "-n", in, "-o",
			`jsonpath={range .items[*]}{.status.allocation.devices.results[0].device}{" "}{end}`))) == 2
	})
	must.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if left := b.left(in); len(left) != 5 {
		t.Errorf("killed, it leaves %q, want a Job, two pods and two claims", left)
	}
	for _, owner := range strings.Fields(b.run("kubectl", "get", "pods,resourceclaims", "-n", in, "-o", "jsonpath={.items[*].metadata.ownerReferences[*].kind}")) {
		test.Eq(t, "Job", owner, test.Sprint("the owner"))
	}
	// The deadline comes now instead of in minutes.
	job := strings.TrimSpace(b.run("kubectl", "get", "jobs", "-n", in, "-o", "name"))
	b.run("kubectl", "patch", job, "-n", in, "--type=merge", "-p", `{"spec": {"activeDeadlineSeconds": 1}}`)
	b.until("an end of what a killed test left", func() bool { return len(b.left(in)) == 0 })
}

// leastRights: without one of the rights of the example, the error names it, and nothing was created.
func (b *bed) leastRights(args []string, in string) {
	roles := []string{"clusterrole/rdma-test", "role/rdma-test"}
	for _, name := range roles {
		var role struct{ Rules []rbacv1.PolicyRule }
		must.NoError(b, json.Unmarshal([]byte(b.run("kubectl", "get", name, "-n", in, "-o", "json")), &role))
		patch := func(rules []rbacv1.PolicyRule) {
			text, err := json.Marshal(map[string]any{"rules": rules})
			must.NoError(b, err)
			b.run("kubectl", "patch", name, "-n", in, "--type=merge", "-p", string(text))
		}
		rights := single(role.Rules)
		for i, r := range rights {
			patch(slices.Delete(slices.Clone(rights), i, i+1))
			said := ""
			// The authorizer hears of a change some time later.
			b.until("an error without the right to "+r.Verbs[0]+" "+r.Resources[0], func() bool {
				out, err := b.command(args...).CombinedOutput()
				said = string(out)
				return err != nil && !strings.Contains(said, "Starting pods")
			})
			missing := regexp.MustCompile(r.Verbs[0] + ` (resource )?"?` + r.Resources[0] + `\b`)
			if !missing.MatchString(said) {
				b.Errorf("without the right to %s %s: %s", r.Verbs[0], r.Resources[0], said)
			}
		}
		patch(role.Rules)
	}
	b.until("a test with all rights", func() bool {
		out, _ := b.command(args...).CombinedOutput()
		return strings.Contains(string(out), "Starting pods")
	})
	b.nothingLeft(in, "tests without rights")
}

// single splits rules into those with one verb and one resource each.
func single(rules []rbacv1.PolicyRule) (out []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				out = append(out, rbacv1.PolicyRule{
					APIGroups: rule.APIGroups, Resources: []string{resource}, Verbs: []string{verb},
				})
			}
		}
	}
	return out
}

// endPods removes the deleted pods of a namespace, as their kubelets would.
func (b *bed) endPods(namespace string) {
	config, err := drivertest.ConfigOf(b.kubeconfig)
	must.NoError(b, err)
	client, err := kubernetes.NewForConfig(config)
	must.NoError(b, err)
	ctx := b.Context()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // the next time
			}
			for _, p := range pods.Items {
				if p.DeletionTimestamp != nil {
					_ = client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
				}
			}
		}
	}()
}

// left lists the objects of tests.
func (b *bed) left(namespace string) []string {
	return strings.Fields(b.run("kubectl", "get", "jobs,pods,resourceclaims", "-n", namespace, "-o", "name"))
}

func (b *bed) nothingLeft(namespace, after string) {
	b.Helper()
	if left := b.left(namespace); len(left) > 0 {
		b.Errorf("%s: %q is left", after, left)
	}
}
