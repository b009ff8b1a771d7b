package vm_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// mpiJob is the job of examples/mpi.yaml on both nodes of a bed, with an HCA of the first rail on each.
type mpiJob struct{ *bed }

const (
	mpiRail = 0
	mpiPods = "batch.kubernetes.io/job-name=mpi"
	endless = 1_000_000 // rounds of all-reduce
)

// trouble: what a job and its user see when driver, kubelet, containerd, a link or the network fails.
func (j mpiJob) trouble(t *testing.T) {
	defer func() {
		if t.Failed() {
			t.Logf("%s\n%s", j.podsSaid(t, mpiPods), deploy.Said(t.Context(), j))
		}
	}()
	j.rounds(t, endless)
	j.goesOn(t)
	j.linkFails(t)
	j.networkFails(t)
}

// rounds applies the example with another number of rounds, and half a second after each, as for a job that also
// computes. Without, the two ranks, and the kernel for them, take a node's one emulated processor: kubelet's probes of
// the driver time out, and its update takes from three to more than eight minutes. The Job stays as it is, and its next
// pods do so.
func (j mpiJob) rounds(t *testing.T, n int) {
	t.Helper()
	manifest, err := os.ReadFile(j.checkout.Example("mpi"))
	must.NoError(t, err)
	said := string(manifest)
	const allreduce, end = "world.Allreduce(data, result)\n", "    signal.alarm(0)\n"
	for _, change := range []struct{ from, to string }{
		{"ELEMENTS, ROUNDS = 1 << 17, 10 ", fmt.Sprintf("ELEMENTS, ROUNDS = 1 << 17, %d ", n)},
		{allreduce + end, allreduce + "        time.sleep(0.5)\n" + end},
	} {
		must.Eq(t, 1, strings.Count(said, change.from),
			must.Sprintf("examples/mpi.yaml does not say once %q", change.from))
		said = strings.Replace(said, change.from, change.to, 1)
	}
	path := filepath.Join(t.TempDir(), "mpi.yaml")
	must.NoError(t, os.WriteFile(path, []byte(said), 0o644))
	j.apply(t, path)
}

// flows waits until the ranks exchange data, and returns the names of their pods, by index.
func (j mpiJob) flows(t *testing.T, what string) (pods [2]string) {
	t.Helper()
	sent := func() uint64 { return j.members[0].rails[mpiRail].Sent(vm.RoCE).Bytes }
	before := sent()
	j.eventually(t, what, 10*time.Minute, func() error {
		if now := sent(); now < before+1<<20 {
			return fmt.Errorf("%s has sent %d bytes", j.members[0].name, now-before)
		}
		return nil
	})
	list, err := j.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: mpiPods})
	must.NoError(t, err)
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			pods[p.Labels["batch.kubernetes.io/job-completion-index"][0]-'0'] = p.Name
		}
	}
	return pods
}

// goesOn: the job does not notice that driver, kubelet or containerd end and start again.
func (j mpiJob) goesOn(t *testing.T) {
	pods := j.flows(t, "the job begins")
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"a kill of the driver", func() { j.members[0].run(t, "pkill", "-9", "-x", "dra-driver") }},
		{"a restart of kubelet", func() { j.members[0].restart(t, cluster.Kubelet) }},
		{"a restart of containerd", func() { j.members[1].restart(t, cluster.Containerd) }},
		{"a rolling update of the driver", func() {
			for _, args := range [][]string{{"rollout", "restart"}, {"rollout", "status", "--timeout=8m"}} {
				j.kubectl(t, append(args, "--namespace", deploy.Namespace, "daemonset/"+deploy.Release)...)
			}
		}},
	} {
		began := time.Now()
		change.do()
		if now := j.flows(t, "the job goes on after "+change.name); now != pods {
			t.Fatalf("the job had the pods %q, and after %s it has %q", pods, change.name, now)
		}
		t.Logf("%s took %s, and the job goes on", change.name, time.Since(began).Round(time.Second))
	}
}

// linkFails: the link of one HCA fails at its port. Taint, the pod's status and events name HCA and pod, and nothing is
// said of the other node. The job fails, and its new pods wait for the link.
func (j mpiJob) linkFails(t *testing.T) {
	pods := j.flows(t, "the job exchanges data")
	n, other, device := j.ready(t, pods[1]), j.ready(t, pods[0]), railDevices[mpiRail].Name
	must.NoError(t, n.rails[mpiRail].Carrier(false))
	j.tainted(t, n, true)
	j.eventually(t, "the status of pod "+pods[1]+" names "+device, 2*time.Minute, func() error {
		if got := j.health(t, pods[1]); !strings.Contains(got, "Unhealthy: "+device) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	j.eventually(t, "an event of pod "+pods[1]+" names "+device, 2*time.Minute, func() error {
		events := j.ours(t)
		if !slices.ContainsFunc(events, func(e string) bool {
			return strings.HasPrefix(e, "RDMAPortDown Pod/"+pods[1]+":") && strings.Contains(e, device)
		}) {
			return fmt.Errorf("there are %q", events)
		}
		return nil
	})
	for _, e := range j.ours(t) {
		t.Log("event: ", e)
		ofOther := strings.Contains(e, "/"+pods[0]+":") || strings.Contains(e, "/"+other.name+":")
		if ofOther && strings.HasPrefix(e, "RDMAPortDown") {
			t.Errorf("a false event: %s", e)
		}
	}
	plugin := filepath.Join(compile(t, "kubectl-rdma"), "kubectl-rdma")
	t.Logf("kubectl rdma status:\n%s", j.rdmaStatus(t, plugin))
	j.fails(t, pods[0])
	j.eventually(t, "a new pod waits for the link", 5*time.Minute, func() error {
		waiting, err := j.Output(t.Context(), "kubectl", "get", "pods", "--selector", mpiPods,
			"--field-selector=status.phase=Pending", "--output=name")
		if err == nil && waiting == "" {
			err = errors.New("none waits")
		}
		return err
	})
	t.Logf("kubectl rdma status:\n%s", j.rdmaStatus(t, plugin))
	must.NoError(t, n.rails[mpiRail].Carrier(true))
	j.tainted(t, n, false)
	j.flows(t, "the job has started again")
}

// networkFails: the network between the nodes fails, and no port does. The job says so, and the driver says nothing.
// The job starts again until the network is back, and then it ends.
func (j mpiJob) networkFails(t *testing.T) {
	pods := j.flows(t, "the job exchanges data")
	before := j.ours(t)
	j.rails[mpiRail].Cut(true)
	j.fails(t, pods[0])
	for _, m := range j.members {
		j.tainted(t, m, false)
	}
	if now := j.ours(t); len(now) != len(before) {
		t.Errorf("the driver says %q, and said before %q", now, before)
	}
	j.rounds(t, 10)
	j.rails[mpiRail].Cut(false)
	t.Logf("when the network is back, index 0 says\n%s", j.jobEnds(t))
}

// fails waits until the job's first pod has failed by itself.
func (j mpiJob) fails(t *testing.T, pod string) {
	t.Helper()
	j.eventually(t, "pod "+pod+" fails", 10*time.Minute, func() error {
		p := j.pod(t, pod)
		if p.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		status := p.Status.ContainerStatuses[0].State.Terminated.ExitCode
		said, err := j.Output(t.Context(), "kubectl", "logs", pod)
		t.Logf("pod %s has ended with status %d, %v, and has said\n%s", pod, status, err, said)
		return nil
	})
}

// tainted wants the device of the job's rail to have a taint, or not to have one.
func (j mpiJob) tainted(t *testing.T, n *memberNode, want bool) {
	t.Helper()
	device := railDevices[mpiRail].Name
	j.eventually(t, fmt.Sprintf("%s of %s has a taint: %t", device, n.name, want), 2*time.Minute, func() error {
		devices, err := j.devices(t.Context(), n.name)
		if err != nil {
			return err
		}
		for _, d := range devices {
			if *d.Attributes["ibdev"].StringValue != device {
				continue
			}
			down := func(t resourceapi.DeviceTaint) bool { return t.Key == "rdma.dev/port-down" }
			if slices.ContainsFunc(d.Taints, down) != want {
				return fmt.Errorf("it has %v", d.Taints)
			}
			return nil
		}
		return errors.New("it is not published")
	})
}

// health is what the kubelet says of the devices of a pod.
func (j mpiJob) health(t *testing.T, pod string) (out string) {
	t.Helper()
	for _, c := range j.pod(t, pod).Status.ContainerStatuses {
		for _, a := range c.AllocatedResourcesStatus {
			for _, r := range a.Resources {
				out += string(r.Health)
				if r.Message != nil {
					out += ": " + *r.Message
				}
				out += "\n"
			}
		}
	}
	return out
}

// ours are the driver's events but for those of the claims' networks.
func (j mpiJob) ours(t *testing.T) []string {
	t.Helper()
	events, err := j.events(t.Context(), "source=rdma.dev")
	must.NoError(t, err)
	return events
}

// rdmaStatus is what kubectl rdma status says.
func (j mpiJob) rdmaStatus(t *testing.T, plugin string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), plugin, "--kubeconfig", j.Kubeconfig(), "status").CombinedOutput()
	test.NoError(t, err, test.Sprintf("%s status", plugin))
	return string(out)
}
