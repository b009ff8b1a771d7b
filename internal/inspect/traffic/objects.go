package traffic

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Cluster is a test's objects in a cluster: a Job that owns all others, and a claim and a pod for each node. The Job
// runs no pods itself (parallelism 0): it is there for its deadline and its TTL. When this program is killed, the Job
// fails at its deadline, the TTL controller deletes it, and the garbage collector deletes pods and claims. The deadline
// of a suspended Job stands still, so the Job is not suspended.
type Cluster struct {
	Client kubernetes.Interface
	Config *rest.Config
	// Namespace is that of all objects. Image has perftest and a shell.
	Namespace, Image string

	job     *batchv1.Job
	created time.Time // by this program's clock
	pods    map[string]string
}

const (
	// grace is how long the objects of a killed test stay, beside what a stage takes.
	grace = 2 * time.Minute
	// maxRequests is how many requests a claim can have, by Kubernetes.
	maxRequests = 32
	lookEvery   = 500 * time.Millisecond
	container   = "test"
	// class is the chart's DeviceClass of HCAs for one claim.
	class = "hca.rdma.dev"
	// cleanupTime bounds the removal of a test's objects, and lastRequest the last request of it.
	cleanupTime = 3 * time.Minute
	lastRequest = 30 * time.Second
)

// sleeper waits until it is ended, at once on SIGTERM.
const sleeper = "trap 'exit 0' TERM; sleep 86400 & wait"

// Start creates the Job, the claims and the pods for HCAs, and waits until the pods run, for at most patience. It
// returns the HCAs whose pods run with them, and the others with the reason. Stop must be called, also after an error.
func (c *Cluster) Start(ctx context.Context, hcas []model.HCA, patience time.Duration) (
	ready, leftOut []model.HCA, _ error) {
	whole := context.WithoutCancel(ctx) // a request that is cut may still make the Job, and Stop would not know of it
	job, err := c.Client.BatchV1().Jobs(c.Namespace).Create(whole, c.owner(patience+grace), metav1.CreateOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("create the test's Job: %w", err)
	}
	c.job, c.created, c.pods = job, time.Now(), map[string]string{}
	nodes := groups(hcas, allHCAs(hcas), func(h *model.HCA) string { return h.Node })
	members := map[string][]model.HCA{}
	for i, of := range nodes {
		var mine []model.HCA
		for _, at := range of {
			mine = append(mine, hcas[at])
		}
		if len(mine) > maxRequests {
			leftOut = append(leftOut, busy(mine[maxRequests:], fmt.Sprintf("a claim has at most %d requests", maxRequests))...)
			mine = mine[:maxRequests]
		}
		name := job.Name + "-" + strconv.Itoa(i)
		if _, err := c.Client.ResourceV1().ResourceClaims(c.Namespace).Create(ctx, c.claim(name, mine),
			metav1.CreateOptions{}); err != nil {
			return nil, nil, fmt.Errorf("create the claim for node %s: %w", mine[0].Node, err)
		}
		if _, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, c.pod(name, mine[0].Node),
			metav1.CreateOptions{}); err != nil {
			return nil, nil, fmt.Errorf("create the pod for node %s: %w", mine[0].Node, err)
		}
		members[mine[0].Node], c.pods[mine[0].Node] = mine, name
	}
	why, err := c.await(ctx, patience)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range hcas {
		switch mine := members[h.Node]; {
		case len(mine) == 0 || !has(mine, h):
		case why[h.Node] != "":
			leftOut = append(leftOut, busy([]model.HCA{h}, why[h.Node])...)
		default:
			ready = append(ready, h)
		}
	}
	return ready, leftOut, nil
}

func has(list []model.HCA, h model.HCA) bool {
	for i := range list {
		if list[i].Name == h.Name {
			return true
		}
	}
	return false
}

// busy returns HCAs with a reason not to test them.
func busy(hcas []model.HCA, why string) (out []model.HCA) {
	for _, h := range hcas {
		h.Busy = why
		out = append(out, h)
	}
	return out
}

// labels are on the test's objects.
func (c *Cluster) labels() map[string]string { return map[string]string{Label: c.job.Name} }

func (c *Cluster) owned(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: c.labels(), OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: c.job.Name, UID: c.job.UID,
	}}}
}

// owner returns the Job that owns a test.
func (c *Cluster) owner(deadline time.Duration) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rdma-test-", Labels: map[string]string{Label: "job"}},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(0)), BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: new(int32(0)),
			ActiveDeadlineSeconds: new(int64(deadline.Seconds())),
			Template:              corev1.PodTemplateSpec{Spec: c.podSpec()},
		},
	}
}

// Renew moves the deadline of the Job: the test goes on for a time. It returns an error if the Job is gone.
func (c *Cluster) Renew(ctx context.Context, goesOn time.Duration) error {
	deadline := time.Since(c.created) + goesOn + grace
	patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "spec": {"activeDeadlineSeconds": %d}}`, c.job.UID,
		int(deadline.Seconds()))
	_, err := c.Client.BatchV1().Jobs(c.Namespace).Patch(ctx, c.job.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("move the deadline of the test's Job %s/%s: %w", c.Namespace, c.job.Name, err)
	}
	return nil
}

// claim returns the claim for HCAs of a node, each with a request of its own.
func (c *Cluster) claim(name string, hcas []model.HCA) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: c.owned(name)}
	for i := range hcas {
		expression := fmt.Sprintf(`device.driver == %q && device.attributes[%q].?ibdev.orValue("") == %q`,
			rdma.Domain, rdma.Domain, hcas[i].IBDev)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: "hca-" + strconv.Itoa(i),
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Selectors:   []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
				Tolerations: []resourceapi.DeviceToleration{model.TolerateDrain()},
			},
		})
	}
	return claim
}

// pod returns the sleeping pod of a node. The scheduler places it, since it allocates the claim. It tolerates the
// taints of nodes: a node that is tested before its first job mostly has one.
func (c *Cluster) pod(name, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: c.owned(name), Spec: c.podSpec()}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "hcas", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "hcas"}}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
	return pod
}

// podSpec satisfies the Pod Security level restricted.
func (c *Cluster) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: container, Image: c.Image, Command: []string{"sh", "-c", sleeper},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(64<<20, resource.BinarySI),
			}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// await waits until all pods run, or for at most patience, and returns by node why a pod does not.
func (c *Cluster) await(ctx context.Context, patience time.Duration) (why map[string]string, _ error) {
	// The requests do not have the deadline: a client whose rate limiter sees it first returns an error of its own.
	err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(context.Context) (bool, error) {
		found, err := c.list(ctx)
		if err != nil {
			return false, err
		}
		why = map[string]string{}
		for node, name := range c.pods {
			if reason := notRunning(found[name]); reason != "" {
				why[node] = reason
			}
		}
		return len(why) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return why, nil
	}
	return why, err
}

// list returns the test's pods by name.
func (c *Cluster) list(ctx context.Context) (map[string]*corev1.Pod, error) {
	list, err := answer.Listed(c.Client.CoreV1().Pods(c.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: Label + "=" + c.job.Name}))
	if err != nil {
		return nil, fmt.Errorf("list the test's pods: %w", err)
	}
	out := map[string]*corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// notRunning says why a pod does not run, "" if it does.
func notRunning(pod *corev1.Pod) string {
	if pod == nil {
		return "somebody deleted the test's pod"
	}
	if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Running != nil {
				return ""
			}
		}
	}
	what := "the test's pod is " + string(pod.Status.Phase)
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			what += ": " + s.State.Waiting.Reason + " " + s.State.Waiting.Message
		case s.State.Terminated != nil:
			what += ": its container has ended: " + s.State.Terminated.Reason
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			what += ": " + condition.Message
		}
	}
	return text.Bound(strings.TrimSpace(what), text.MaxForeign)
}

// Addresses returns the addresses of the pods by node.
func (c *Cluster) Addresses(ctx context.Context) (map[string]string, error) {
	found, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for node, name := range c.pods {
		if pod := found[name]; pod != nil {
			out[node] = pod.Status.PodIP
		}
	}
	return out, nil
}

// Has reports whether a pod is one of this test.
func (c *Cluster) Has(namespace, pod string) bool {
	if namespace == c.Namespace {
		for _, name := range c.pods {
			if name == pod {
				return true
			}
		}
	}
	return false
}

// Exec runs a command in the pod of a node.
func (c *Cluster) Exec(ctx context.Context, node string, argv []string, stdout io.Writer) error {
	request := c.Client.CoreV1().RESTClient().Post().Namespace(c.Namespace).Resource("pods").Name(c.pods[node]).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdout: true},
		scheme.ParameterCodec)
	sockets, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", request.URL())
	if err != nil {
		return err
	}
	either, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout})
}

// Stop deletes the Job, and waits until the garbage collector has deleted its pods and claims, also if the context has
// ended. Without a Job it does nothing.
func (c *Cluster) Stop(ctx context.Context) error { return c.stop(ctx, cleanupTime) }

func (c *Cluster) stop(ctx context.Context, patience time.Duration) error {
	if c.job == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+lastRequest)
	defer cancel()
	err := c.Client.BatchV1().Jobs(c.Namespace).Delete(ctx, c.job.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground),
		Preconditions:     metav1.NewUIDPreconditions(string(c.job.UID)),
	})
	if err != nil && !answer.Gone(err, batchv1.Resource("jobs"), c.job.Name) {
		return fmt.Errorf("delete the test's Job %s/%s: %w; it ends by itself within %s", c.Namespace, c.job.Name, err, grace)
	}
	left := ""
	err = wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(context.Context) (bool, error) {
		pods, err := c.list(ctx)
		if err != nil {
			return false, err
		}
		claims, err := answer.Listed(c.Client.ResourceV1().ResourceClaims(c.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: Label + "=" + c.job.Name}))
		if err != nil {
			return false, fmt.Errorf("list the test's claims: %w", err)
		}
		left = fmt.Sprintf("%s and %s", text.Count(len(pods), "pod"), text.Count(len(claims.Items), "claim"))
		return len(pods)+len(claims.Items) == 0, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("wait for the end of the test's objects: %s are still there after %s: kubectl get "+
			"pods,resourceclaims -n %s -l %s=%s", left, patience, c.Namespace, Label, c.job.Name)
	}
	return err
}
