package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/remotecommand"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

const namespace = "default"

// look says what a container or an exec session has.
const look = `echo "memlock $(ulimit -S -l) $(ulimit -H -l) devices $(ls /sys/class/infiniband | tr '\n' ' ')` +
	`nodes $(ls /dev/infiniband 2>/dev/null | tr '\n' ' ')"; ibv_devinfo 2>&1 | grep -E "hca_id|state" || true`

// both are containers of a pod; one is what a pod needs that does nothing but come and go.
var both, one = []string{"one", "two"}, []string{"one"}

// pod is one that stays, with containers of an ordinary user, which look around and then wait.
// It has a claim of its own name unless ibdev is empty.
func pod(name, ibdev string, containers []string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), RunAsNonRoot: ptr.To(true),
			},
		},
	}
	if ibdev != "" {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "hca", ResourceClaimName: ptr.To(name)}}
	}
	for _, name := range containers {
		c := corev1.Container{
			Name: name, Image: vm.ToolsImage, ImagePullPolicy: corev1.PullNever,
			Command: []string{"sh", "-c", look + "; exec sleep 100000"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}
		if ibdev != "" {
			c.Resources.Claims = []corev1.ResourceClaim{{Name: "hca"}}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// claim asks for a device by its kernel's name.
func claim(name, ibdev string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "nic",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "hca.rdma.dev", Selectors: []resourceapi.DeviceSelector{{
				CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes['rdma.dev'].ibdev == %q", ibdev)},
			}}},
		}}}},
	}
}

// networked is a claim that also asks for the device's network interface, in JSON as kubectl
// writes it: without spaces, and with keys in order. Of others, which programs can make, the
// API server takes every patch of the status for a change of the allocation, and refuses it.
func networked(name, ibdev, network string) *resourceapi.ResourceClaim {
	c := claim(name, ibdev)
	c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "net.hca.rdma.dev"
	parameters := []byte(`{"apiVersion":"rdma.dev/v1alpha1","kind":"HCAConfig","network":` + network + `}`)
	opaque := &resourceapi.OpaqueDeviceConfiguration{
		Driver: "rdma.dev", Parameters: runtime.RawExtension{Raw: parameters},
	}
	c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: opaque},
	}}
	return c
}

// create makes a pod and its claim.
func create(t *testing.T, name, ibdev string, containers []string) {
	t.Helper()
	if ibdev != "" {
		createClaim(t, claim(name, ibdev))
	}
	createPod(t, pod(name, ibdev, containers))
}

// createNetworked makes a pod whose claim asks for the network interface too.
func createNetworked(t *testing.T, name, ibdev, network string) {
	t.Helper()
	createClaim(t, networked(name, ibdev, network))
	createPod(t, pod(name, ibdev, one))
}

func createPod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	// The default service account of a new cluster may not be there yet.
	inside.Eventually(t, "make pod "+p.Name, time.Minute, func() error {
		_, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	})
}

func createClaim(t *testing.T, c *resourceapi.ResourceClaim) {
	t.Helper()
	if _, err := client.ResourceV1().ResourceClaims(namespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	return p
}

// runs makes a pod and waits until its containers run; it returns how long that took.
func runs(t *testing.T, name, ibdev string, containers []string) time.Duration {
	t.Helper()
	began := time.Now()
	create(t, name, ibdev, containers)
	ready(t, name)
	return time.Since(began)
}

// ready waits until the containers of a pod run. It watches: who asks again and again keeps an emulated machine from
// its work.
func ready(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, named)
	if _, err := watchtools.UntilWithSync(ctx, pods, &corev1.Pod{}, nil, func(e watch.Event) (bool, error) {
		p, ok := e.Object.(*corev1.Pod)
		return ok && e.Type != watch.Deleted && running(p), nil
	}); err != nil {
		states := get(t, name).Status.ContainerStatuses
		t.Fatalf("pod %s is not ready: %v: %+v\n%s", name, err, states, strings.Join(events(t, name), "\n"))
	}
}

func running(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ends deletes a pod and its claim, and waits until they are gone.
func ends(t *testing.T, name string) {
	t.Helper()
	pods, claims := client.CoreV1().Pods(namespace), client.ResourceV1().ResourceClaims(namespace)
	for what, c := range map[string]struct{ remove, get func() error }{
		"pod": {
			func() error { return pods.Delete(t.Context(), name, metav1.DeleteOptions{}) },
			func() error { _, err := pods.Get(t.Context(), name, metav1.GetOptions{}); return err },
		},
		"claim": {
			func() error { return claims.Delete(t.Context(), name, metav1.DeleteOptions{}) },
			func() error { _, err := claims.Get(t.Context(), name, metav1.GetOptions{}); return err },
		},
	} {
		if err := c.remove(); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		defer inside.Eventually(t, what+" "+name+" is gone", 3*time.Minute, func() error {
			if err := c.get(); !apierrors.IsNotFound(err) {
				return errors.Join(err, errors.New("it is there"))
			}
			return nil
		})
	}
}

// events are the messages of a pod's events.
func events(t *testing.T, name string) (out []string) {
	t.Helper()
	list, err := client.CoreV1().Events(namespace).List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range list.Items {
		out = append(out, e.Reason+": "+e.Message)
	}
	return out
}

// logged waits until a container has said something.
func logged(t *testing.T, name, container string, words ...string) {
	t.Helper()
	inside.Eventually(t, fmt.Sprintf("container %s of pod %s says %q", container, name, words), time.Minute, func() error {
		out, err := client.CoreV1().Pods(namespace).GetLogs(name,
			&corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
		if err != nil {
			return err
		}
		for _, w := range words {
			if !strings.Contains(string(out), w) {
				return fmt.Errorf("it said %s", out)
			}
		}
		return nil
	})
}

// exec runs a command in a container by the request of kubectl exec. kubectl itself takes five emulated seconds to
// start.
func exec(ctx context.Context, name, container, script string) (string, error) {
	request := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: []string{"sh", "-c", script}, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		err = fmt.Errorf("run %q in container %s of pod %s: %w: %s", script, container, name, err, &stderr)
	}
	return stdout.String(), err
}
