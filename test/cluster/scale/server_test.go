package scale

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// server is a real API server with its etcd, and an administrator's client of it.
type server struct {
	testing.TB
	control *cluster.ControlPlane
	config  *rest.Config
	client  kubernetes.Interface
	kubectl string
	ended   float64 // processor seconds of API servers that have ended
}

func startServer(t testing.TB) *server {
	t.Helper()
	control, path := testbed.ControlPlane(t, cluster.Options{Progress: os.Stderr})
	config, err := drivertest.ConfigOf(control.Kubeconfig())
	must.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	must.NoError(t, err)
	s := &server{TB: t, control: control, config: config, client: client}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, "kubectl")); err == nil {
			s.kubectl = found
		}
	}
	return s
}

// each does something for 0 to n-1, 32 at a time.
func (s *server) each(n int, do func(context.Context, int) error) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	must.NoError(s, group.Wait())
}

// apply applies a manifest.
func (s *server) apply(manifest string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), s.kubectl, "--kubeconfig", s.control.Kubeconfig(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	must.NoError(s, err, must.Sprintf("apply: %s", out))
}

// install applies the plain manifests of the driver: rights, policies, classes. It makes the users' namespace.
func (s *server) install() {
	s.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(s, err)
	data, err := os.ReadFile(checkout.Path("deployments", "manifests", "dra-driver-rdma.yaml"))
	must.NoError(s, err)
	s.apply(string(data))
	s.namespace(usersNamespace)
}

// usersNamespace is where claims and pods are. The fixture kubelet names it, too.
const usersNamespace = "team-a"

func (s *server) namespace(name string) {
	s.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.client.CoreV1().Namespaces().Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// driverPod makes the Node and the pod of its driver, and returns the pod's UID and a token of its service account.
func (s *server) driverPod(ctx context.Context, node string) (uid, token string, err error) {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	object.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0"
	if _, err := s.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return "", "", err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: deploy.Release + "-" + node},
		Spec: corev1.PodSpec{
			ServiceAccountName: deploy.Release, NodeName: node,
			Containers: []corev1.Container{{Name: "driver", Image: "driver"}},
		},
	}
	if pod, err = s.client.CoreV1().Pods(deploy.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return "", "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := s.client.CoreV1().ServiceAccounts(deploy.Namespace).
		CreateToken(ctx, deploy.Release, request, metav1.CreateOptions{})
	if err != nil {
		return "", "", err
	}
	return string(pod.UID), answer.Status.Token, nil
}

// restart kills the API server, and waits until the next one serves.
func (s *server) restart(ctx context.Context) error {
	s.ended += processorOf(s, s.control.PID(cluster.APIServer))
	return s.control.Restart(ctx)
}

// processor is the processor time of the API server since it was first started, in seconds.
func (s *server) processor() float64 {
	s.Helper()
	return s.ended + processorOf(s, s.control.PID(cluster.APIServer))
}

// tick is the unit of times in /proc/PID/stat (proc(5), sysconf(_SC_CLK_TCK)), which is the same on all of Go's ports.
const tick = 10 * time.Millisecond

// processorOf is the processor time of a process, in seconds.
func processorOf(t testing.TB, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.NoError(t, err)
	// utime and stime are the 14th and 15th field. The second one is a name in parentheses, which may have spaces.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	sum := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		must.NoError(t, err, must.Sprintf("/proc/%d/stat", pid))
		sum += n
	}
	return (time.Duration(sum) * tick).Seconds()
}
