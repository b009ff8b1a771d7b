package plugin

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// testRights are what docs/kubectl-rdma.md has for tests, in the namespace of a test.
func testRights(t *testing.T, namespace string) string {
	page, err := os.ReadFile("../../../../docs/kubectl-rdma.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: kubectl-rdma-test\n")
	role, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		t.Fatal("docs/kubectl-rdma.md has no Role for tests")
	}
	role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: kubectl-rdma-test\n" + role
	return strings.Replace(role, "namespace: rdma-test", "namespace: "+namespace, 1)
}

// TestTraffic: kubectl rdma test creates a Job that owns a pod and an allocated claim for each node, with the rights of
// the documents alone. These nodes have no kubelet, so no pod runs, and the command says so. Whenever it is interrupted,
// nothing is left. When it is killed, the controllers of Kubernetes remove the rest at the Job's deadline.
func TestTraffic(t *testing.T) {
	t.Parallel()
	b := newBed(t, "", "exclusive")
	file := filepath.Join(t.TempDir(), "second.json")
	data, err := os.ReadFile(objects + "exclusive.json")
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(strings.ReplaceAll(string(data), `"train"`, `"second"`), `-train"`, `-second"`)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.nodes(file)
	b.roles()
	const in = "rdma-test"
	b.run("kubectl", "create", "namespace", in)
	b.endPods(in)
	b.run("kubectl", "label", "namespace", in, "pod-security.kubernetes.io/enforce=restricted")
	b.apply(testRights(t, in))
	b.run("kubectl", "create", "rolebinding", "tester", "-n", in, "--role=kubectl-rdma-test", "--user=viewer")
	args := func(more ...string) []string {
		return append([]string{"kubectl-rdma", "test", "nodes", "train", "second", "-n", in, "--image=none", "--as=viewer"}, more...)
	}

	out, err := b.command("kubectl", "rdma", "test", "nodes", "train", "second", "--image=none", "--as=viewer").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "you may not create jobs, patch jobs, delete jobs, create pods, create pods/exec") {
		t.Errorf("without rights: %v\n%s", err, out)
	}
	out, err = b.command(args("--wait=3s")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the test's pod is Pending") {
		t.Errorf("pods that do not run: %v\n%s", err, out)
	}
	b.nothingLeft(in, "a test whose pods do not run")

	// A pod that waits for a device goes first.
	w := waiting{claim: devices(request("nic", "hca.rdma.dev", selector("false")), "")}
	b.apply(w.manifest("first"))
	out, err = b.command(args()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "1 pod waits for RDMA devices: default/first; nothing was created") {
		t.Errorf("beside a pod that waits: %v\n%s", err, out)
	}
	b.run("kubectl", "delete", "pod", "first", "--now")

	random := rand.New(rand.NewPCG(7, 8))
	interruptions := 4
	if needs.IsLong() {
		interruptions = 20
	}
	for i := range interruptions {
		cmd := b.command(args()...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		_ = cmd.Process.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[i%2])
		if err := cmd.Wait(); err == nil {
			t.Errorf("interrupted, it succeeds: %s", &said)
		}
		b.nothingLeft(in, fmt.Sprintf("interruption %d: %s", i, &said))
	}

	cmd := b.command(args()...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.until("a test with allocated claims", func() bool {
		return len(strings.Fields(b.run("kubectl", "get", "resourceclaims", "-n", in, "-o",
			`jsonpath={range .items[*]}{.status.allocation.devices.results[0].device}{" "}{end}`))) == 2
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if left := b.left(in); len(left) != 5 {
		t.Errorf("killed, it leaves %q, want a Job, two pods and two claims", left)
	}
	for _, owner := range strings.Fields(b.run("kubectl", "get", "pods,resourceclaims", "-n", in, "-o", "jsonpath={.items[*].metadata.ownerReferences[*].kind}")) {
		if owner != "Job" {
			t.Errorf("the owner is a %s", owner)
		}
	}
	// The deadline comes now instead of in minutes.
	job := strings.TrimSpace(b.run("kubectl", "get", "jobs", "-n", in, "-o", "name"))
	b.run("kubectl", "patch", job, "-n", in, "--type=merge", "-p", `{"spec": {"activeDeadlineSeconds": 1}}`)
	b.until("an end of what a killed test left", func() bool { return len(b.left(in)) == 0 })
}

// endPods removes the deleted pods of a namespace, as their kubelets would.
func (b *bed) endPods(namespace string) {
	config, err := drivertest.ConfigOf(b.kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
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
