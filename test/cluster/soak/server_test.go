package soak

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// userNamespace is where the claims are.
const userNamespace = "team-a"

// ofNode selects the slices of the node.
const ofNode = "spec.nodeName=" + drivertest.NodeName

// server is a real API server, and who talks to it besides the driver, as an administrator.
type server struct {
	t       *testing.T
	control *cluster.ControlPlane
	config  *rest.Config
	client  kubernetes.Interface
	slices  resourcelisters.ResourceSliceLister // follows a watch

	scheduler         controlplane.Cluster
	allocated, forced int
	pods              map[string]string // names of the driver's pods, by UID
	touched           int
}

// start starts an API server with the plain manifests of the driver, a node, and a namespace
// of users.
func start(t *testing.T) *server {
	t.Helper()
	control, path := testbed.ControlPlane(t, cluster.Options{Progress: t.Output()})
	config, err := drivertest.ConfigOf(control.Kubeconfig())
	must.NoError(t, err)
	s := &server{
		t: t, control: control, config: config, pods: map[string]string{},
		scheduler: controlplane.Cluster{Node: drivertest.NodeName, Features: controlplane.V136(), Claims: map[string]*resourceapi.ResourceClaim{}},
	}
	s.client, err = kubernetes.NewForConfig(config)
	must.NoError(t, err)
	s.install(path)
	s.createNode()
	s.createNamespace()
	s.follow()
	return s
}

// install applies the plain manifests: RBAC, policies, classes.
func (s *server) install(path string) {
	s.t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(s.t, err)
	kubectl := s.program(path, "kubectl")
	manifests := checkout.Path("deployments", "manifests", "dra-driver-rdma.yaml")
	apply := exec.CommandContext(s.t.Context(), kubectl, "--kubeconfig", s.control.Kubeconfig(), "apply", "-f", manifests)
	out, err := apply.CombinedOutput()
	must.NoError(s.t, err, must.Sprintf("apply %s: %s", manifests, out))
	classes, err := s.client.ResourceV1().DeviceClasses().List(s.t.Context(), metav1.ListOptions{})
	must.NoError(s.t, err)
	for i := range classes.Items {
		s.scheduler.Classes = append(s.scheduler.Classes, &classes.Items[i])
	}
}

// program finds a program in a search path.
func (s *server) program(path, name string) string {
	s.t.Helper()
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found
		}
	}
	s.t.Fatalf("there is no %s in %s", name, path)
	return ""
}

func (s *server) createNode() {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drivertest.NodeName}}
	node.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.0"
	if _, err := s.client.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// createNamespace makes the namespace of the users, with what its controllers would make.
func (s *server) createNamespace() {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: userNamespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := s.client.CoreV1().ServiceAccounts(userNamespace).Create(s.t.Context(), account, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// follow watches the slices of the node.
func (s *server) follow() {
	s.t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = ofNode }))
	s.slices = factory.Resource().V1().ResourceSlices().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

// Config implements soak.Server.
func (s *server) Config() *rest.Config { return s.config }

// NewPod implements soak.Server: the pod has the service account and the node that the daemon
// set gives it.
func (s *server) NewPod() (uid, token string) {
	s.t.Helper()
	ctx := s.t.Context()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: deploy.Release + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: deploy.Release, NodeName: drivertest.NodeName,
			Containers: []corev1.Container{{Name: "driver", Image: "driver"}},
		},
	}
	pod, err := s.client.CoreV1().Pods(deploy.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	must.NoError(s.t, err)
	s.pods[string(pod.UID)] = pod.Name
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := s.client.CoreV1().ServiceAccounts(deploy.Namespace).CreateToken(ctx, deploy.Release, request, metav1.CreateOptions{})
	must.NoError(s.t, err)
	return string(pod.UID), answer.Status.Token
}

// RemovePod implements soak.Server. The tokens of the pod are worth nothing then.
func (s *server) RemovePod(uid string) {
	s.t.Helper()
	must.NoError(s.t, s.client.CoreV1().Pods(deploy.Namespace).Delete(s.t.Context(), s.pods[uid], *metav1.NewDeleteOptions(0)))
}

// Slices implements soak.Server, by what a watch has told.
func (s *server) Slices() []resourceapi.ResourceSlice {
	list, err := s.slices.List(labels.Everything())
	must.NoError(s.t, err)
	var out []resourceapi.ResourceSlice
	for _, slice := range list {
		out = append(out, *slice.DeepCopy())
	}
	return out
}

// WipeSlices implements soak.Server.
func (s *server) WipeSlices() {
	s.t.Helper()
	wiped := map[types.UID]bool{}
	for _, slice := range s.Slices() {
		wiped[slice.UID] = true
	}
	must.NoError(s.t, s.client.ResourceV1().ResourceSlices().DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: ofNode}))
	drivertest.Eventually(s.t, func() error {
		for _, slice := range s.Slices() {
			if wiped[slice.UID] {
				return fmt.Errorf("slice %s was deleted, and the watch has it", slice.Name)
			}
		}
		return nil
	})
}

// TouchSlices implements soak.Server.
func (s *server) TouchSlices() {
	s.t.Helper()
	client := s.client.ResourceV1().ResourceSlices()
	for _, slice := range s.Slices() {
		s.touched++
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now, err := client.Get(s.t.Context(), slice.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, "example.com/touched", fmt.Sprint(s.touched))
			_, err = client.Update(s.t.Context(), now, metav1.UpdateOptions{})
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			s.t.Fatal(err)
		}
	}
}

// Restart implements soak.Server.
func (s *server) Restart() {
	s.t.Helper()
	must.NoError(s.t, s.control.Restart(s.t.Context()))
}
