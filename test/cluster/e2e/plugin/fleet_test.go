package plugin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestThousandNodes: on a cluster of 1,000 nodes, each with twelve HCAs and a pod that has eight of them, kubectl rdma
// takes at most 300 MiB of memory. Its time is printed beside that of kubectl, which reads the same objects.
func TestThousandNodes(t *testing.T) {
	needs.Long(t, "TestFleet of internal/inspect counts a fleet, and TestDrain here drains on a real API server")
	const nodes, most = 1000, 300 << 20
	b := newBed(t, "")
	fill(t, b.kubeconfig, nodes)
	peer := b.measured("kubectl", "get", "-A", "-o", "json",
		"nodes,pods,events,resourceslices,resourceclaims,resourceclaimtemplates,deviceclasses,devicetaintrules")
	t.Logf("%-38s %v", "kubectl get", peer)
	for _, c := range []struct {
		command string
		want    string
	}{
		{"status -A", "1000"},
		{"status -A -o json", `"items"`},
		{"topology --cluster", "1000    9000"},
		{"drain node0500 --dry-run", "1 pod would be evicted"},
		{"drain node0500 mlx5_0 --dry-run", "1 pod would be evicted"},
	} {
		got := b.measured(append([]string{"kubectl", "rdma"}, strings.Fields(c.command)...)...)
		t.Logf("%-38s %v, %.2f of the time of kubectl", c.command, got, got.wall.Seconds()/peer.wall.Seconds())
		test.StrContains(t, got.out, c.want, test.Sprintf("kubectl rdma %s does not say", c.command))
		test.LessEq(t, most, got.memory,
			test.Sprintf("kubectl rdma %s takes %d MiB of memory, and at most %d are allowed", c.command, got.memory>>20, most>>20))
	}
}

// run of a command, with its largest resident memory in bytes.
type measurement struct {
	out             string
	wall, processor time.Duration
	memory          int64
}

func (m measurement) String() string {
	return fmt.Sprintf("%.1f s, %.1f s of processor time, %d MiB, %d KiB printed", m.wall.Seconds(),
		m.processor.Seconds(), m.memory>>20, len(m.out)>>10)
}

// measured runs a command by the program of the tests, started again as runMeasured: for the kernel, a process begins
// with the memory of the one that started it, and this one has much.
func (b *bed) measured(args ...string) (m measurement) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := b.command(append([]string{measureVariable + "=yes", self}, args...)...)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v\n%s", args, err, failed.String())
	}
	m.out, m.wall = out.String(), time.Since(began)
	lines := strings.Split(strings.TrimSpace(failed.String()), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], measureFormat, &m.processor, &m.memory); err != nil {
		b.Fatalf("%v: %v\n%s", args, err, failed.String())
	}
	return m
}

const (
	measureVariable = "MEASURE_COMMAND"
	measureFormat   = "%d ns of processor time, %d bytes of memory"
)

// runMeasured runs a command, and prints what it took on standard error. It returns the exit code.
func runMeasured(args []string) int {
	cmd := exec.Command("/usr/bin/env", append([]string{"-u", measureVariable}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	processor := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Fprintf(os.Stderr, "\n"+measureFormat+"\n", processor, used.Maxrss<<10)
	return 0
}

// fill makes as many nodes like one fixture machine, each with a claim for eight HCAs and the pod that has them.
func fill(t *testing.T, kubeconfig string, nodes int) {
	t.Helper()
	f := fleet.New(t)
	f.Node("node", "hgx-h100", "")
	f.Allocate("node", "rails", controlplane.Claim(controlplane.Request{Name: "nics", Class: "hca.rdma.dev", Count: 8}))
	l := f.Lists()
	client, err := drivertest.ClientOf(kubeconfig)
	must.NoError(t, err)
	for i := range l.Classes {
		_, err := client.ResourceV1().DeviceClasses().Create(t.Context(), &l.Classes[i], metav1.CreateOptions{})
		must.NoError(t, err)
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(32)
	for i := range nodes {
		group.Go(func() error { return copyNode(ctx, client, &l, fmt.Sprintf("node%04d", i)) })
	}
	must.NoError(t, group.Wait())
}

// copyNode makes a copy of a fleet's only node, with what is on it.
func copyNode(ctx context.Context, client kubernetes.Interface, l *fleet.Lists, name string) error {
	node := l.Nodes[0].DeepCopy()
	node.Name, node.Labels["kubernetes.io/hostname"] = name, name
	created, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status, created.ResourceVersion = node.Status, "" // a controller may have changed it already
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for i := range l.Slices {
		s := l.Slices[i].DeepCopy()
		s.Name, s.GenerateName, s.UID, s.ResourceVersion = fmt.Sprintf("%s-%d", name, i), "", "", ""
		s.Spec.NodeName, s.Spec.Pool.Name = &name, name
		if _, err := client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, worker(name), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status, pod.ResourceVersion = fleet.Running(fleet.On(*pod, name)).Status, ""
	if _, err := client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return allocate(ctx, client, &l.Claims[0], pod)
}

// worker is a node's pod, with a claim of the same name.
func worker(name string) *corev1.Pod {
	pod := fleet.Pod(name)
	pod.Name, pod.UID, pod.Spec.NodeName = name, "", name
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.37"}}
	// The garbage collector deletes what an absent Job owns. JobSets it does not know.
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train-" + name[:6], UID: types.UID(name[:6]),
		Controller: new(true),
	}}
	return &pod
}

// allocate makes a pod's claim, with the devices that the fleet's claim has on its node.
func allocate(
	ctx context.Context, client kubernetes.Interface, like *resourceapi.ResourceClaim, pod *corev1.Pod,
) error {
	claims := client.ResourceV1().ResourceClaims(pod.Namespace)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: like.Spec}
	created, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status, created.ResourceVersion = *like.Status.DeepCopy(), ""
	for i := range created.Status.Allocation.Devices.Results {
		created.Status.Allocation.Devices.Results[i].Pool = pod.Spec.NodeName
	}
	created.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: pod.Name, UID: pod.UID},
	}
	_, err = claims.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}
