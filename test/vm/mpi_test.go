package vm_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// mpiRounds is how often TestMPI runs its jobs on the same two nodes. What makes a guest stand still may need many.
var mpiRounds = flag.Int("mpi-rounds", 1, "how often TestMPI runs its jobs")

// TestMPI runs the job of examples/mpi.yaml on two nodes, as docs/mpi.md says. Pod Security is at its strictest level.
// The job's output, the kernels' counters and the switch all say that the bytes went over RDMA.
func TestMPI(t *testing.T) {
	needs.Long(t, "it runs for ten minutes; TestTwoNodes shows RDMA between two nodes")
	archive, err := vm.BuildMPI(t.Context(), vm.Options{Progress: os.Stderr})
	must.NoError(t, err)
	b := newBedWith(t, bedOptions{archives: []string{archive}}, append(railValues(t),
		"config.ipam.roce.subnet=10.78.0.0/16", "config.ipam.roce.perNode=24", "config.ipam.roce.label="+blockLabel)...)
	b.makeKeys(t)
	b.kubectl(t, "label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
	end := func() { b.kubectl(t, "delete", "job/mpi", "--ignore-not-found", "--cascade=foreground") }
	for round := 1; round <= *mpiRounds && !t.Failed(); round++ {
		t.Logf("round %d of %d", round, *mpiRounds)
		end()
		// Events of the round before may be of a link of the other node, and end after an hour, while trouble counts.
		b.kubectl(t, "delete", "events", "--all", "--all-namespaces")
		t.Run("result", mpiJob{b}.result)
		end()
		t.Run("trouble", mpiJob{b}.trouble)
	}
}

// result: the ranks say that the result is right, and the counters that it came by RDMA.
func (j mpiJob) result(t *testing.T) {
	before := j.mpiCounts(t)
	began := time.Now()
	j.apply(t, j.checkout.Example("mpi"))
	said := j.jobEnds(t)
	t.Logf("after %s index 0 has said:\n%s", time.Since(began).Round(time.Second), said)
	for _, want := range []string{
		"rank 0 on mpi-0: result right", "rank 1 on mpi-1: result right", "The bytes went over RDMA.",
	} {
		test.StrContains(t, said, want, test.Sprint("it does not say"))
	}
	sent := regexp.MustCompile(`sent (\d+) bytes`).FindStringSubmatch(said)
	must.Eq(t, 2, len(sent), must.Sprint("it does not say what it sent"))
	bytes, err := strconv.Atoi(sent[1])
	must.NoError(t, err)
	for i, now := range j.mpiCounts(t) {
		was := before[i]
		packets, frames, tcp := now.packets-was.packets, now.frames-was.frames, now.tcp-was.tcp
		t.Logf("%s: its HCA sent %d packets; it sent %d bytes of RoCE on the rail, and %d bytes of TCP", j.members[i].name,
			packets, frames, tcp)
		if packets*1024 < bytes || frames < bytes || tcp > bytes/10 { // the MTU of these HCAs is 1024
			t.Errorf("%s: a rank sends %d bytes", j.members[i].name, bytes)
		}
	}
}

// mpiCount is what a node has sent: packets of its HCA of the first rail, bytes of RoCE there, and bytes of TCP.
type mpiCount struct{ packets, frames, tcp int }

func (j mpiJob) mpiCounts(t *testing.T) (all []mpiCount) {
	t.Helper()
	for _, m := range j.members {
		roce, tcp := m.rails[0].Sent(vm.RoCE), m.management.Sent(vm.TCP)
		all = append(all, mpiCount{m.packets(t, 0), int(roce.Bytes), int(tcp.Bytes)})
	}
	return all
}

// makeKeys makes the job's Secret by the commands of docs/mpi.md.
func (b *bed) makeKeys(t *testing.T) {
	t.Helper()
	needs.Program(t, "ssh-keygen", "run hack/install-packages.sh")
	page, err := os.ReadFile(b.checkout.Path("docs", "mpi.md"))
	must.NoError(t, err)
	_, after, _ := strings.Cut(string(page), "ssh-keygen")
	keys, after, _ := strings.Cut(after, "```")
	_, after, _ = strings.Cut(after, "```sh\n")
	secret, _, found := strings.Cut(after, "```")
	if !found || !strings.Contains(secret, "create secret") {
		t.Fatal("docs/mpi.md does not say how to make keys and Secret")
	}
	_, path := clusterPrograms(t)
	script := fmt.Sprintf("cd %s; PATH=%s:$PATH; ssh-keygen%s%s", t.TempDir(), path, keys, secret)
	if out, err := b.Output(t.Context(), "sh", "-euc", script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// jobEnds waits until the job has succeeded, and returns what index 0 said.
func (j mpiJob) jobEnds(t *testing.T) string {
	t.Helper()
	const limit = 10 * time.Minute
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Second) {
		j.allRun(t)
		job, err := j.client.BatchV1().Jobs("default").Get(t.Context(), "mpi", metav1.GetOptions{})
		must.NoError(t, err)
		for _, c := range job.Status.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobSuccessCriteriaMet || c.Type == batchv1.JobComplete:
				return j.podsSaid(t, "batch.kubernetes.io/job-completion-index=0")
			case c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget:
				t.Fatalf("the job has failed: %s\n%s", c.Message, j.podsSaid(t, batchv1.JobNameLabel+"=mpi"))
			}
		}
	}
	describe, err := j.Output(t.Context(), "kubectl", "describe", "jobs,pods,resourceclaims")
	said := j.podsSaid(t, batchv1.JobNameLabel+"=mpi")
	t.Fatalf("the job does not end within %s\n%s\n%s, %v", limit, said, describe, err)
	return ""
}

func (j mpiJob) podsSaid(t *testing.T, selector string) string {
	t.Helper()
	out, err := j.Output(t.Context(), "kubectl", "logs", "--selector", selector, "--tail=-1", "--prefix")
	if err != nil {
		return fmt.Sprint(out, err)
	}
	return out
}
