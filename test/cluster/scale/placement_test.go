package scale

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

var (
	nodeCount = flag.Int("nodes", 1024, "nodes of the cluster, in leaves of 16")
	jobCount  = flag.Int("jobs", 110, "jobs of a run; the first ones fill the cluster")
	seed      = flag.Uint64("seed", 1, "of the sizes of jobs and of their order of ends")
)

const (
	// nodesOfLeaf is how many nodes a leaf switch has.
	nodesOfLeaf = 16
	// load is the part of the nodes that jobs have.
	load = 0.85
	// leafLabel is the label of a node that names its leaf switch, as NFD makes it of a local feature file.
	leafLabel = "rdma.dev/leaf-switch"
	// jobLabel names the job of a pod.
	jobLabel = "job"
)

// way is a way to place the pods of a job.
type way struct {
	name string
	// affinity is that of the pods of a job.
	affinity func(job) *corev1.PodAffinity
}

// ways are compared with each other. All have the same jobs in the same order.
var ways = []way{
	{"no label", func(job) *corev1.PodAffinity { return nil }},
	{"preferred", preferred},
	{"required up to 16 nodes", func(j job) *corev1.PodAffinity {
		if j.nodes > nodesOfLeaf {
			return preferred(j)
		}
		return &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{sameLeaf(j)}}
	}},
}

// preferred prefers nodes of leaves with pods of the job.
func preferred(j job) *corev1.PodAffinity {
	return &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: sameLeaf(j)},
	}}
}

func sameLeaf(j job) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{jobLabel: j.name()}}, TopologyKey: leafLabel,
	}
}

func (j job) name() string { return fmt.Sprintf("job%04d", j.number) }

func (j job) pod(n int) string { return fmt.Sprintf("%s-%d", j.name(), n) }

// BenchmarkPlacement runs the same jobs on a simulated cluster with a real scheduler, placed in each way, and counts
// the leaves that they use.
func BenchmarkPlacement(b *testing.B) {
	plan := planOf(*seed, *nodeCount, *jobCount, load)
	var results []placement
	var version string
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			s := newSimulation(b, "")
			version = s.version()
			began := time.Now()
			results = append(results, placement{way: w.name, jobs: s.run(plan, w)})
			fmt.Printf("%s: %d steps in %s\n", w.name, len(plan), time.Since(began).Round(time.Second))
		})
	}
	if !b.Failed() && len(results) == len(ways) {
		publishPlacement(b, version, results)
	}
}

// placed is where the pods of a job of the steady state are.
type placed struct {
	job
	least, possible int           // leaves: of an empty cluster, and of the nodes that were free at its start
	leaves          int           // that it uses; of the pods with a node, if not all have one
	took            time.Duration // from the first request to the last pod with a node; 0 if one never had one
	late            int           // jobs that ended before it was whole
}

// placement is what one way gives.
type placement struct {
	way  string
	jobs []placed
}

// simulation is a cluster of nodes that nobody runs, with a real scheduler.
type simulation struct {
	*server
	wants  resourceapi.DeviceClaim // all HCAs of a node, or what the next gang wants
	rails  map[string]int64        // by name of the device
	leafOf map[string]int          // by name of the node
	pods   corelisters.PodLister
	claims resourcelisters.ResourceClaimLister
}

func newSimulation(b *testing.B, policy string) *simulation {
	b.Helper()
	s := &simulation{server: startServer(b), leafOf: map[string]int{}}
	must.NoError(b, s.control.Schedule())
	f := fleet.New(b)
	f.Node("node", model, policy)
	l := f.Lists()
	for i := range l.Classes {
		_, err := s.client.ResourceV1().DeviceClasses().Create(b.Context(), &l.Classes[i], metav1.CreateOptions{})
		must.NoError(b, err)
	}
	hcas := 0
	var ours []resourceapi.ResourceSlice
	for _, slice := range l.Slices {
		if slice.Spec.Driver != fleet.GPUDriver {
			hcas += len(slice.Spec.Devices)
			ours = append(ours, slice)
		}
	}
	s.rails = railsByName(ours)
	s.wants = controlplane.Claim(controlplane.Request{Name: "hcas", Class: "hca.rdma.dev", Count: int64(hcas)})
	for i := range *nodeCount {
		s.leafOf[nodeName(i)] = i / nodesOfLeaf
	}
	s.each(*nodeCount, func(ctx context.Context, i int) error { return s.addNode(ctx, &l.Nodes[0], ours, i) })
	s.namespace(usersNamespace)
	s.follow()
	drivertest.Eventually(b, func() error {
		_, err := s.client.CoreV1().ServiceAccounts(usersNamespace).Get(b.Context(), "default", metav1.GetOptions{})
		return err
	})
	return s
}

func nodeName(i int) string { return fmt.Sprintf("node%04d", i) }

// addNode makes a node like another one, with its slices and the label of its leaf.
func (s *simulation) addNode(
	ctx context.Context, like *corev1.Node, published []resourceapi.ResourceSlice, i int,
) error {
	name, nodes := nodeName(i), s.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, leafLabel: fmt.Sprintf("leaf%03d", s.leafOf[name]),
	}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A new node is tainted until it is ready. A controller may write to it at the same time.
	node.Spec.Taints, node.ResourceVersion = nil, ""
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	node.Status, node.ResourceVersion = like.Status, ""
	if _, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for n := range published {
		slice := published[n].DeepCopy()
		slice.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("%05x-%s-%s", n, slice.Spec.Driver, name)}
		slice.Spec.NodeName, slice.Spec.Pool.Name = &name, name
		if _, err := s.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// follow watches pods and claims.
func (s *simulation) follow() {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(usersNamespace))
	s.pods = factory.Core().V1().Pods().Lister()
	s.claims = factory.Resource().V1().ResourceClaims().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	s.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

// run runs the jobs of a plan, and returns those of the steady state.
func (s *simulation) run(plan []step, w way) (out []placed) {
	waiting := map[int]*placed{} // by number, jobs without all nodes
	all := map[int]*placed{}
	began := map[int]time.Time{}
	for _, st := range plan {
		j := st.job
		if st.ends {
			if p := all[j.number]; p != nil {
				p.leaves = s.leaves(j)
				out = append(out, *p)
			}
			delete(waiting, j.number)
			s.end(j)
			for n, p := range waiting {
				p.late++
				if s.whole(p.job) {
					p.took = time.Since(began[n])
					delete(waiting, n)
				}
			}
			continue
		}
		p := &placed{job: j, least: leavesAtLeast(j.nodes, nodesOfLeaf), possible: leavesNow(j.nodes, s.free())}
		if st.steady {
			all[j.number] = p
		}
		began[j.number] = time.Now()
		s.start(j, w)
		if s.settle(j) {
			p.took = time.Since(began[j.number])
		} else {
			waiting[j.number] = p
		}
	}
	for _, st := range plan { // what runs at the end
		if p := all[st.job.number]; p != nil && !st.ends && s.leaves(st.job) > 0 {
			p.leaves = s.leaves(st.job)
			out = append(out, *p)
		}
	}
	return out
}

// free is how many nodes of each leaf have no pod.
func (s *simulation) free() []int {
	free := make([]int, (*nodeCount+nodesOfLeaf-1)/nodesOfLeaf)
	for _, leaf := range s.leafOf {
		free[leaf]++
	}
	for _, pod := range s.list(labels.Everything()) {
		if pod.Spec.NodeName != "" {
			free[s.leafOf[pod.Spec.NodeName]]--
		}
	}
	return free
}

func (s *simulation) list(selector labels.Selector) []*corev1.Pod {
	list, err := s.pods.Pods(usersNamespace).List(selector)
	if err != nil {
		s.Fatal(err) // a lister reads memory
	}
	return list
}

func (s *simulation) podsOf(j job) []*corev1.Pod {
	return s.list(labels.SelectorFromSet(labels.Set{jobLabel: j.name()}))
}

// leaves is how many leaves the pods of a job are on.
func (s *simulation) leaves(j job) int {
	leaves := map[int]bool{}
	for _, pod := range s.podsOf(j) {
		if pod.Spec.NodeName != "" {
			leaves[s.leafOf[pod.Spec.NodeName]] = true
		}
	}
	return len(leaves)
}

// start makes the claims and then the pods of a job.
func (s *simulation) start(j job, w way) {
	s.Helper()
	s.each(j.nodes, func(ctx context.Context, n int) error {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: j.pod(n)},
			Spec: resourceapi.ResourceClaimSpec{Devices: s.wants}}
		_, err := s.client.ResourceV1().ResourceClaims(usersNamespace).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	affinity := w.affinity(j)
	s.each(j.nodes, func(ctx context.Context, n int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: j.pod(n), Labels: map[string]string{jobLabel: j.name()}},
			Spec: corev1.PodSpec{
				ResourceClaims: []corev1.PodResourceClaim{{Name: "hcas", ResourceClaimName: new(j.pod(n))}},
				Containers: []corev1.Container{{Name: "main", Image: "none",
					Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "hcas"}}}}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // nobody says that the nodes are alive
			},
		}
		if affinity != nil {
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: affinity}
		}
		_, err := s.client.CoreV1().Pods(usersNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// whole reports whether all pods of a job have a node.
func (s *simulation) whole(j job) bool {
	have := 0
	for _, pod := range s.podsOf(j) {
		if pod.Spec.NodeName != "" {
			have++
		}
	}
	return have == j.nodes
}

// quiet is how long nothing may change before a job counts as refused. The scheduler tries a pod again after a second,
// or after up to ten if it has failed before.
const quiet = 15 * time.Second

// settle waits until all pods of a job have a node, or the scheduler has said of each other one that it fits nowhere.
// It reports whether the job is whole.
func (s *simulation) settle(j job) bool {
	s.Helper()
	have, changed := 0, time.Now()
	err := drivertest.Await(10*time.Minute, func() error {
		now, answered := 0, true
		for _, pod := range s.podsOf(j) {
			if pod.Spec.NodeName != "" {
				now++
			} else if !refused(pod) {
				answered = false
			}
		}
		if now != have {
			have, changed = now, time.Now()
		}
		if have == j.nodes || answered && time.Since(changed) > quiet {
			return nil
		}
		return fmt.Errorf("%d of %d pods of %s have a node", have, j.nodes, j.name())
	})
	must.NoError(s, err)
	return have == j.nodes
}

// refused reports whether the scheduler has said that a pod fits nowhere.
func refused(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// end ends a job, and waits until its nodes are free.
func (s *simulation) end(j job) {
	s.Helper()
	s.each(j.nodes, func(ctx context.Context, n int) error {
		err := s.client.CoreV1().Pods(usersNamespace).Delete(ctx, j.pod(n), *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return s.client.ResourceV1().ResourceClaims(usersNamespace).Delete(ctx, j.pod(n), metav1.DeleteOptions{})
	})
	err := drivertest.Await(10*time.Minute, func() error {
		list, err := s.claims.ResourceClaims(usersNamespace).List(labels.Everything())
		if err != nil {
			return err
		}
		for _, claim := range list {
			if strings.HasPrefix(claim.Name, j.name()+"-") {
				return fmt.Errorf("claim %s is still there", claim.Name)
			}
		}
		return nil
	})
	must.NoError(s, err)
}
