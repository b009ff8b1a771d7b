package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// BenchmarkSchedule is a real scheduler and API server with 1,000 nodes that nobody runs: from
// the first of 100 pods, with a claim for one HCA each, until all of them have a node. The
// floor are as many devices without attributes; pods without a claim are beside it.
func BenchmarkSchedule(b *testing.B) {
	cp := startControlPlane(b)
	must.NoError(b, cp.Schedule())
	c := &simulation{client: clientOf(b, cp)}
	c.fill(b)
	c.schedule(b, 10, "") // warms up
	plain := c.schedule(b, 100, "")
	for _, devices := range []int{8, 136} {
		b.Run(fmt.Sprintf("nodes=%d/devices=%d", simulated, devices), func(b *testing.B) {
			published := slicesOf(b, devices)
			class := hcaClass
			if devices > 8 {
				class = "vf.hca.rdma.dev"
			}
			for _, side := range []struct {
				name, class string
				slices      []*resourceapi.ResourceSlice
			}{{"ours", class, published}, {"empty", bareClass, bare(published)}} {
				c.publish(b, side.slices)
				c.schedule(b, 10, side.class)
				took := c.schedule(b, 100, side.class)
				report(b, "driver="+side.name, figures{"ns/op": float64(took) / 100, "without-claim-ns": float64(plain) / 100})
			}
		})
	}
}

// bareClass has the devices without attributes.
const bareClass = "bare"

// simulation is a cluster of nodes that nobody runs.
type simulation struct {
	client kubernetes.Interface
	pods   int
}

// fill makes the nodes, and the classes of the pods' claims.
func (c *simulation) fill(b *testing.B) {
	b.Helper()
	for _, class := range append(controlplane.ChartClasses(b), controlplane.Class(bareClass, `device.driver == "rdma.dev"`)) {
		if _, err := c.client.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	c.each(b, simulated, func(ctx context.Context, n int) error { return c.addNode(ctx, nodeName(n)) })
	c.until(b, "the service account of the pods", func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// each does something n times, some of them at once.
func (c *simulation) each(b *testing.B, n int, f func(context.Context, int) error) {
	b.Helper()
	next, errs := make(chan int), make([]error, n)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range next {
				errs[i] = f(b.Context(), i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	must.NoError(b, errors.Join(errs...))
}

// until waits for a condition.
func (c *simulation) until(b *testing.B, what string, so func(context.Context) (bool, error)) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for {
		ok, err := so(ctx)
		must.NoError(b, err, must.Sprintf("wait for %s", what))
		if ok {
			return
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
}

// addNode makes a node that is ready, though nobody runs it.
func (c *simulation) addNode(ctx context.Context, name string) error {
	nodes := c.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A new node is tainted until it is ready. The controller writes to it too.
	node.Spec.Taints, node.ResourceVersion = nil, ""
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.ResourceVersion = ""
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// publish replaces the slices of all nodes by copies of those of one.
func (c *simulation) publish(b *testing.B, one []*resourceapi.ResourceSlice) {
	b.Helper()
	slices := c.client.ResourceV1().ResourceSlices()
	c.until(b, "the slices of before to be deleted", func(ctx context.Context) (bool, error) {
		err := slices.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) // ends after a minute, done or not
		return err == nil, ctx.Err()
	})
	c.each(b, simulated, func(ctx context.Context, n int) error {
		pool := nodeName(n)
		for _, s := range one {
			s = s.DeepCopy()
			s.Name, s.Spec.NodeName, s.Spec.Pool.Name = s.Name+pool, &pool, pool
			if _, err := slices.Create(ctx, s, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// schedule makes pods with a claim of a class each, or without one for "", and returns how long it took
// until all had a node.
func (c *simulation) schedule(b *testing.B, pods int, class string) time.Duration {
	b.Helper()
	first := c.pods
	c.pods += pods
	began := time.Now()
	c.each(b, pods, func(ctx context.Context, n int) error { return c.addPod(ctx, fmt.Sprintf("pod%d", first+n), class) })
	c.until(b, "all pods to have a node", func(ctx context.Context) (bool, error) {
		waiting, err := c.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		return err == nil && len(waiting.Items) == 0, err
	})
	return time.Since(began)
}

func (c *simulation) addPod(ctx context.Context, name, class string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "main", Image: "none"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // nobody tells that the nodes are alive
	}}
	if class != "" {
		claim := &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourceapi.ResourceClaimSpec{Devices: controlplane.Claim(controlplane.Want("hca", class))},
		}
		if _, err := c.client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "hca", ResourceClaimName: &name}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "hca"}}
	}
	_, err := c.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	return err
}
