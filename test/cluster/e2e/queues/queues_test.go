// Package queues proves the driver with controllers of jobs that others make: Kueue, JobSet, LeaderWorkerSet and the
// MPI operator, each the program and the manifests of its module. It applies examples/queues as they are
// (docs/kueue.md). Only `make test-queues` runs it, since it builds the programs.
//
// Controllers and webhooks of one test stay for the next ones, since each acts on jobs of its own alone: Kueue on those
// with the label of a queue, the others on their own kinds. The cluster ends with the package.
package queues

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// bed is a host with eight HCAs for GPUs, two on each rail from 0 to 3.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{Machine: "hgx-h100", Values: testbed.HGXValues}, &bed)
}

// namespace is a namespace with what the jobs claim.
func namespace(t *testing.T) *testbed.Namespace {
	t.Helper()
	n := bed.Namespace(t)
	n.Apply(manifest(t, "rails"))
	return n
}

// manifest is an example with other words, given as old, new, old, new.
func manifest(t *testing.T, name string, words ...string) string {
	t.Helper()
	path := bed.Checkout.Path("examples", "queues", name+".yaml")
	return strings.NewReplacer(words...).Replace(testbed.ReadFile(t, path))
}

// named waits for so many pods with a label, and returns their names.
func named(t *testing.T, n *testbed.Namespace, label string, count int) (pods []string) {
	t.Helper()
	testbed.Eventually(t, "pods with label "+label, func() error {
		out := n.Kubectl("get", "pods", "--selector="+label, "-o", "jsonpath={.items[*].metadata.name}")
		if pods = strings.Fields(out); len(pods) != count {
			return fmt.Errorf("there are %q", pods)
		}
		return nil
	})
	return pods
}

// workers waits for two pods with a label that are ready. Each has the HCA of rail 0 and the one of rail 1 that its
// claim names, and no other.
func workers(t *testing.T, n *testbed.Namespace, label string) (pods []string) {
	t.Helper()
	pods = named(t, n, label, 2)
	n.Ready(pods...)
	published := bed.Devices(t)
	for _, pod := range pods {
		var devices, rails []string
		for _, r := range n.ClaimOf(pod).Results() {
			rail := published[r.Device].Attributes["rail"]["int"]
			devices, rails = append(devices, r.Device), append(rails, fmt.Sprint(r.Request, "=", rail))
		}
		slices.Sort(rails)
		test.Eq(t, []string{"rail0=0", "rail1=1"}, rails, test.Sprint(pod))
		n.Expect(pod, "worker", devices...)
	}
	return pods
}

// end lets the programs of pods end without a fault.
func end(n *testbed.Namespace, pods []string) {
	for _, pod := range pods {
		n.Terminate(pod)
	}
}

// wait waits for a condition of an object.
func wait(n *testbed.Namespace, object, condition string) {
	n.Kubectl("wait", object, "--for=condition="+condition, "--timeout="+testbed.Patience.String())
}

// says waits until the Workload of an object says why Kueue holds it back.
func says(t *testing.T, n *testbed.Namespace, object, words string) {
	t.Helper()
	testbed.Eventually(t, "Kueue's reason for "+object, func() error {
		out := n.Kubectl("get", "workloads", "-o", "jsonpath={range .items[*]}{.metadata.ownerReferences[0].name}"+
			`{": "}{.status.conditions[*].message}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, object+": ") && strings.Contains(line, words) {
				t.Log(line)
				return nil
			}
		}
		return fmt.Errorf("%s", out)
	})
}

// TestKueue: Kueue counts the HCAs of a job, and holds back what exceeds the quota until the job has ended. It takes no
// claim with a configuration. That it takes none with selectors, as rails.yaml says, is in its source alone
// (docs/kueue.md).
func TestKueue(t *testing.T) {
	bed.Controller(t, "kueue", "controllerManager.manager.image",
		"--values", bed.Checkout.Path("examples", "queues", "kueue-values.yaml"))
	n := namespace(t)
	n.Apply(manifest(t, "queue"))
	n.Apply(manifest(t, "job"))
	first := workers(t, n, "batch.kubernetes.io/job-name=train")
	t.Log(n.Kubectl("get", "workloads"))

	n.Apply(manifest(t, "job", "name: train", "name: next"))
	says(t, n, "next", "insufficient unused quota for rdma.dev/hca in flavor any-node, 4 more needed")
	n.Apply(manifest(t, "pod"))
	why := bed.Plugin().Why(t, n.Name, "notebook")
	test.StrContains(t, why.Summary, "the pod has the scheduling gate kueue.x-k8s.io/admission")
	t.Log(n.Kubectl("get", "workloads"), n.Kubectl("get", "pods"), bed.Plugin().Run(t, n.Name, "why", "notebook"))

	end(n, first)
	wait(n, "job/train", "Complete")
	end(n, workers(t, n, "batch.kubernetes.io/job-name=next"))
	wait(n, "job/next", "Complete")
	n.Ready("notebook")
	t.Log(n.Kubectl("get", "workloads"), n.Kubectl("get", "jobs"))

	n.Example("same-rails")
	n.Apply(manifest(t, "job", "name: train", "name: configured", "resourceClaimTemplateName: rails",
		"resourceClaimTemplateName: rails-0-and-1"))
	says(t, n, "configured", "device config is not supported")
}

// TestJobSet: the pods of a JobSet have their HCAs. Those of the next one wait, and kubectl rdma why says for which.
func TestJobSet(t *testing.T) {
	bed.Controller(t, "jobset", "image")
	n := namespace(t)
	n.Apply(manifest(t, "jobset"))
	first := workers(t, n, "jobset.sigs.k8s.io/jobset-name=train")
	n.Apply(manifest(t, "jobset", "name: train", "name: next"))
	pendingForHCAs(t, n, "jobset.sigs.k8s.io/jobset-name=next", "jobset/train")
	end(n, first)
	wait(n, "jobset/train", "Completed")
	end(n, workers(t, n, "jobset.sigs.k8s.io/jobset-name=next"))
	wait(n, "jobset/next", "Completed")
}

// TestLeaderWorkerSet: leader and worker have their HCAs. Those of the next group wait until the first one is deleted.
func TestLeaderWorkerSet(t *testing.T) {
	bed.Controller(t, "lws", "image.manager", "--set", "resources.requests.cpu=100m")
	n := namespace(t)
	n.Apply(manifest(t, "leaderworkerset"))
	workers(t, n, "leaderworkerset.sigs.k8s.io/name=serve")
	n.Apply(manifest(t, "leaderworkerset", "name: serve", "name: next"))
	pendingForHCAs(t, n, "leaderworkerset.sigs.k8s.io/name=next", "leaderworkerset/serve")
	n.Kubectl("delete", "leaderworkerset", "serve")
	workers(t, n, "leaderworkerset.sigs.k8s.io/name=next")
	n.Kubectl("delete", "leaderworkerset", "next", "--cascade=foreground")
}

// TestMPIOperator: the workers of an MPIJob have their HCAs, and the job ends with its launcher. The
// operator's manifest names the image.
func TestMPIOperator(t *testing.T) {
	module := bed.ControllerImage(t, "mpi-operator", "docker.io/mpioperator/mpi-operator:0.8.0")
	bed.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(module, "deploy", "v2beta1", "mpi-operator.yaml"))
	n := namespace(t)
	n.Apply(manifest(t, "mpijob"))
	workers(t, n, "training.kubeflow.org/job-role=worker")
	launcher := named(t, n, "training.kubeflow.org/job-role=launcher", 1)
	n.Ready(launcher...)
	end(n, launcher)
	wait(n, "mpijob/train", "Succeeded")
	n.Kubectl("delete", "mpijob", "train", "--cascade=foreground")
}

// pendingForHCAs asserts that a pod with a label is pending, since the pods of a job have the HCAs that it needs. The
// holder is the name of this job in kubectl rdma status.
func pendingForHCAs(t *testing.T, n *testbed.Namespace, label, holder string) {
	t.Helper()
	pod := named(t, n, label, 2)[0]
	n.Pending(pod)
	plugin := bed.Plugin()
	why, status := plugin.Run(t, n.Name, "why", pod), plugin.Run(t, n.Name, "status")
	test.StrContains(t, why, "request rail0 wants 1 of rail0.hca.example.com, and no node has one that it can get")
	test.StrContains(t, status, holder)
	t.Log(why, status)
}
