package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// The nodes: the driver of nodeA was taken over, nodeB is another one.
const (
	nodeA, nodeB = "node-a", "node-b"
	driverName   = "rdma.dev"
	otherDriver  = "gpu.example.com"
	team         = "team-a" // a namespace of users
)

// reach is an API server with the plain manifests of the driver, and who writes to it.
type reach struct {
	admin  kubernetes.Interface
	config *rest.Config
	driver kubernetes.Interface // by the token of the driver's pod on nodeA
	loose  kubernetes.Interface // by a token of the driver's service account that no pod has
	node   kubernetes.Interface // by the kubelet's own credentials on nodeA
	moved  kubernetes.Interface // as the driver in another namespace, where kustomize put it: its policies name no other
	slices map[string]*resourceapi.ResourceSlice
	claims map[string]*resourceapi.ResourceClaim
	nodes  map[string]*corev1.Node
}

// attempt is what somebody tries, and words of the refusal, "" if it may be done. Nothing is stored.
type attempt struct {
	name string
	as   kubernetes.Interface // the driver of nodeA where it is nil
	do   func(ctx context.Context, as kubernetes.Interface) error
	want string
}

var (
	dryCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	dryUpdate = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	dryPatch  = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	dryDelete = metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
)

// try makes attempts.
func (r *reach) try(t *testing.T, attempts []attempt) {
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			as := a.as
			if as == nil {
				as = r.driver
			}
			switch err := a.do(t.Context(), as); {
			case a.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case a.want != "" && err == nil:
				t.Errorf("accepted, want %q", a.want)
			case a.want != "" && !strings.Contains(err.Error(), a.want):
				t.Errorf("refused with %q, want %q", err, a.want)
			}
		})
	}
}

// startReach starts the server. What an attacker of a version without the policies, or an administrator, has left is older
// than the policies.
func startReach(t *testing.T) *reach {
	t.Helper()
	s := start(t)
	config, err := drivertest.ConfigOf(s.Kubeconfig)
	must(t, err)
	admin, err := kubernetes.NewForConfig(config)
	must(t, err)
	r := &reach{
		admin: admin, config: config, slices: map[string]*resourceapi.ResourceSlice{}, claims: map[string]*resourceapi.ResourceClaim{},
		nodes: map[string]*corev1.Node{},
	}
	ctx := t.Context()
	for _, name := range []string{nodeA, nodeB} {
		r.nodes[name], err = admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{})
	must(t, err)
	r.storeSlices(t)
	if out, err := s.run(t, "", "apply", "-f", "../../../deployments/manifests/dra-driver-rdma.yaml"); err != nil {
		t.Fatalf("apply the manifests: %v: %s", err, out)
	}
	r.storeClaims(t)
	r.likeBefore136(t)
	bound := r.podOn(t, nodeA)
	r.driver, r.loose = r.withToken(t, bound), r.withToken(t, nil)
	r.node = r.impersonate(t, rest.ImpersonationConfig{UserName: "system:node:" + nodeA, Groups: []string{"system:nodes", "system:authenticated"}})
	r.moved = r.impersonate(t, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:elsewhere:" + deploy.Release, Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {nodeA}},
	})
	r.await(t)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podOn makes a pod of the driver.
func (r *reach) podOn(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pod, err := r.admin.CoreV1().Pods(deploy.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: deploy.Release + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: deploy.Release, NodeName: node, Containers: []corev1.Container{{Name: "driver", Image: "driver"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return pod
}

// withToken returns a client of the driver's service account, with a token that is bound to a pod unless that is nil.
func (r *reach) withToken(t *testing.T, pod *corev1.Pod) kubernetes.Interface {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := r.admin.CoreV1().ServiceAccounts(deploy.Namespace).CreateToken(t.Context(), deploy.Release, request, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = answer.Status.Token
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// impersonate returns a client with the rights of another, such as a node's kubelet: they lie on the same disk as the
// driver's token.
func (r *reach) impersonate(t *testing.T, who rest.ImpersonationConfig) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(r.config)
	config.Impersonate = who
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// likeBefore136 gives the driver what whoever may write the status of claims had before Kubernetes 1.36: then
// the policy alone refuses.
func (r *reach) likeBefore136(t *testing.T) {
	t.Helper()
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/binding"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, Verbs: []string{"arbitrary-node:patch", "arbitrary-node:update"}},
	}
	meta := metav1.ObjectMeta{Name: "like-before-1.36"}
	_, err := r.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = r.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.Release}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// await waits until roles and policies are in force, which takes the API server a moment: something of the driver's own
// is accepted of each kind, and something of nobody's is refused by the policy.
func (r *reach) await(t *testing.T) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		foreign := ownSlice(func(s *resourceapi.ResourceSlice) { s.Spec.Driver = otherDriver })
		for policy, err := range map[string]error{
			"node-slices.rdma.dev":  createSlice(foreign)(t.Context(), r.driver),
			"claim-status.rdma.dev": r.updateStatus("own", func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil })(t.Context(), r.driver),
			"events.rdma.dev":       createEvent(func(e *corev1.Event) { e.Source.Host = nodeB })(t.Context(), r.driver),
		} {
			if err == nil || !strings.Contains(err.Error(), policy) {
				return fmt.Errorf("policy %s is not in force: %w", policy, err)
			}
		}
		return createSlice(ownSlice())(t.Context(), r.driver)
	})
}

// TestReach: whoever has the token of a node's driver, or the credentials of its kubelet, writes nothing that names something
// of another node. Each row is an attempt; those that are accepted touch the own node alone.
func TestReach(t *testing.T) {
	r := startReach(t)
	t.Run("slices", func(t *testing.T) { r.try(t, append(r.newSlices(), r.oldSlices()...)) })
	t.Run("claims", func(t *testing.T) { r.try(t, r.claimAttempts(t)) })
	t.Run("events", func(t *testing.T) { r.try(t, append(r.newEvents(), r.oldEvents(t)...)) })
	t.Run("rights", func(t *testing.T) { r.try(t, r.beyondRights()) })
	t.Run("generation", r.absurdGeneration)
}

// beyondRights are attempts on what the driver only reads, and on what it does not even read.
func (r *reach) beyondRights() []attempt {
	const want = "cannot "
	return []attempt{
		{"update its node", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.CoreV1().Nodes().Update(ctx, r.nodes[nodeA], dryUpdate)
			return err
		}, want},
		{"patch the status of its node", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.CoreV1().Nodes().Patch(ctx, nodeA, "application/merge-patch+json", []byte(`{"status":{}}`), dryPatch, "status")
			return err
		}, want},
		{"update a claim", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.ResourceV1().ResourceClaims(team).Update(ctx, r.claims["own"], dryUpdate)
			return err
		}, want},
		{"delete a claim", nil, func(ctx context.Context, as kubernetes.Interface) error {
			return as.ResourceV1().ResourceClaims(team).Delete(ctx, "own", dryDelete)
		}, want},
		{"list claims", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
			return err
		}, want},
		{"list pods of its node", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeA})
			return err
		}, want},
		{"delete all slices", nil, func(ctx context.Context, as kubernetes.Interface) error {
			return as.ResourceV1().ResourceSlices().DeleteCollection(ctx, dryDelete, metav1.ListOptions{})
		}, want},
		{"an event of the other API", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.EventsV1().Events(team).List(ctx, metav1.ListOptions{})
			return err
		}, want},
	}
}
