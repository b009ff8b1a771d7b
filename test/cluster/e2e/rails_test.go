package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
	"github.com/rdma-dev/dra-driver-rdma/test/docs"
)

// torchrun stands for the program of examples/rails-gpu/job.yaml, which needs GPUs: it ends when the test has seen
// what its container has.
const torchrun = `#!/bin/sh
trap 'exit 1' TERM
until [ -e /tmp/seen ]; do sleep 1; done
`

// nvidiaClass is the DeviceClass of NVIDIA's driver, with the GPUs that the test bed has.
const nvidiaClass = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
`

// railLinks are the interfaces of the HCAs next to GPUs, by rail.
var railLinks = [8]string{
	"enp25s0np0", "enp41s0np0", "enp59s0np0", "enp75s0np0", "enp92s0np0", "enp110s0np0", "enp126s0np0", "enp144s0np0",
}

// TestRailsGPU does what docs/nccl.md says, on two nodes that eight cables connect: each rail is a veth pair, with an
// end on each node. All manifests are applied as they are. The stand-ins are the GPUs and torchrun.
func TestRailsGPU(t *testing.T) {
	needs.Long(t, "a second node; TestRails allocates the same claim, TestIPAMByAPI has an interface in a pod")
	n := bed.Namespace(t)
	r := &rails{n: n, t: t, nodes: [2]*testbed.Bed{bed, bed.Second(t)}}
	t.Cleanup(func() { n.Kubectl("delete", "jobs", "--all", "--cascade=foreground") }) // while both nodes are there
	r.connect()
	page, err := docs.Read(bed.Checkout.Path("docs", "nccl.md"))
	must.NoError(t, err)
	values := testbed.ReadFile(t, bed.Checkout.Example("rails-gpu/values")) + "\nlockedMemory: {limit: inherit}\n"
	bed.Configure(t, values)
	n.Apply(nvidiaClass)
	t.Cleanup(func() { bed.Kubectl(t, "delete", "deviceclass", "gpu.nvidia.com", "rail.hca.example.com") })
	s := newShell(t, n, bed.Checkout.Path("examples", "rails-gpu"))
	for _, step := range steps(t, page) {
		command := step.command
		if strings.HasPrefix(command, "kubectl logs") || strings.HasPrefix(command, "cd ") {
			continue // of NCCL; the shell is there
		}
		command = strings.Replace(command, "daemonset/dra-driver-rdma", r.driver("node1"), 1)
		printed := s.run(command)
		if step.prints != nil {
			s.compare(step, printed)
		}
		if strings.HasPrefix(command, "kubectl apply") {
			r.ready()
			if strings.Contains(command, "gpus.yaml") {
				r.withoutHCAs()
			}
		}
	}
	r.aligned()
	for i := range r.pods {
		r.looks(i)
	}
	for rail := range railLinks {
		r.talks(rail)
	}
	r.nccl(page)
	for _, pod := range r.pods {
		n.Sh(pod, "rank", "touch /tmp/seen")
	}
	n.Kubectl("wait", "job/rails-gpu", "--for=condition=Complete", "--timeout="+testbed.Patience.String())
	r.numbered(s, values)
}

// rails are two nodes, and the pods of the job on them.
type rails struct {
	n     *testbed.Namespace
	t     *testing.T
	nodes [2]*testbed.Bed
	pods  [2]string // by node
}

// connect gives the nodes what they need: pod CIDRs, rails, and the image of the job.
func (r *rails) connect() {
	r.t.Helper()
	image := bed.Image(r.t, "registry.example.com/rails-gpu:1", "torchrun", torchrun)
	for i, b := range r.nodes {
		name, _ := cluster.Node(i + 1)
		patch := fmt.Sprintf(`{"spec": {"podCIDR": %[1]q, "podCIDRs": [%[1]q]}}`, cluster.PodCIDR(i+1))
		bed.Kubectl(r.t, "patch", "node", name, "--patch", patch)
		must.NoError(r.t, b.Load(r.t.Context(), image))
	}
	for _, name := range railLinks {
		must.NoError(r.t, bed.Cable(r.t.Context(), r.nodes[1].Cluster, name, name, 9000))
	}
}

// driver is the driver's pod on a node.
func (r *rails) driver(node string) string {
	r.t.Helper()
	return bed.Kubectl(r.t, "--namespace=dra-driver-rdma", "get", "pods", "--field-selector=spec.nodeName="+node, "-o",
		"jsonpath={.items[0].metadata.name}")
}

// ready waits until the job has a running pod on each node.
func (r *rails) ready() {
	r.t.Helper()
	uid := r.n.Kubectl("get", "job", "rails-gpu", "-o", "jsonpath={.metadata.uid}")
	selector := "batch.kubernetes.io/controller-uid=" + uid
	testbed.Eventually(r.t, "pods of the job", func() error {
		out := r.n.Kubectl("get", "pods", "--selector="+selector, "--field-selector=status.phase=Running", "-o",
			`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name}{"\n"}{end}`)
		running := strings.Fields(out)
		if len(running) != 4 {
			return fmt.Errorf("running: %v", running)
		}
		for i := 0; i < len(running); i += 2 {
			number, err := strconv.Atoi(strings.TrimPrefix(running[i], "node"))
			if err != nil {
				return err
			}
			r.pods[number-1] = running[i+1]
		}
		return nil
	})
}

// withoutHCAs: in the run that fails, NCCL finds no HCA.
func (r *rails) withoutHCAs() {
	r.t.Helper()
	for _, pod := range r.pods {
		v := r.n.Look(pod, "rank")
		if v.Nodes != "" || strings.Contains(v.Env, "NCCL_IB_HCA") || strings.Contains(v.Env, "RDMA_") {
			r.t.Errorf("%s has no HCA, and sees %+v", pod, v)
		}
	}
}

// aligned: each claim has eight pairs, and hcaN is the HCA of rail N, with a GPU below the same switch.
func (r *rails) aligned() {
	r.t.Helper()
	for _, pod := range r.pods {
		results := r.n.ClaimOf(pod).Results()
		if len(results) != 2*len(railLinks) {
			r.t.Fatalf("the claim of %s has %d devices", pod, len(results))
		}
		for rail, link := range railLinks {
			hca, gpu := results[2*rail], results[2*rail+1]
			if hca.Request != fmt.Sprint("hca", rail) || gpu.Request != fmt.Sprint("gpu", rail) ||
				!bed.SameSwitch(r.t, hca.Device, gpu.Device) {
				r.t.Errorf("rail %d of %s: %+v and %+v", rail, pod, hca, gpu)
			}
			path := bed.PCIPath(r.t, hca.Device)
			net := filepath.Join(bed.HostRoot, "sys/bus/pci/devices", path[len(path)-1], "net", link)
			if _, err := os.Stat(net); err != nil {
				r.t.Errorf("rail %d of %s has %s, which is not the HCA of %s", rail, pod, hca.Device, link)
			}
		}
	}
}

// names are the HCAs next to GPUs, by rail, as NCCL is told.
const names = "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_5,mlx5_6,mlx5_7,mlx5_8"

// address is that of a pod on a rail. The first one of node1 is the gateway.
func address(node, rail int) string { return fmt.Sprintf("10.%d.%d.%d", 80+rail, node, 2-node) }

// looks: a container has the nodes of its eight HCAs, their names for NCCL, and an interface on each rail.
func (r *rails) looks(node int) {
	r.t.Helper()
	pod := r.pods[node]
	v := r.n.Look(pod, "rank")
	if !slices.Contains(strings.Fields(v.Env), "NCCL_IB_HCA=="+names) || strings.Contains(v.Env, "NCCL_IB_GID_INDEX") {
		r.t.Errorf("%s has %s", pod, v.Env)
	}
	const nodes = "rdma_cm uverbs0 uverbs1 uverbs2 uverbs3 uverbs5 uverbs6 uverbs7 uverbs8"
	if v.Nodes != nodes || v.User != "1001" || v.Caps != "0000000000000000" {
		r.t.Errorf("%s sees %+v", pod, v)
	}
	links := strings.Split(r.n.Sh(pod, "rank", "ip -o -4 addr; ip -o link"), "\n")
	for rail := range railLinks {
		name := fmt.Sprint("rdma", rail)
		has := func(words ...string) bool {
			return slices.ContainsFunc(links, func(line string) bool {
				return testbed.ContainsAll(line, append(words, ": "+name))
			})
		}
		if !has(" "+address(node, rail)+"/16 ") || !has(" mtu 9000 ") {
			r.t.Errorf("%s: %s is not the interface of rail %d:\n%s", pod, name, rail, strings.Join(links, "\n"))
		}
	}
	events := r.n.Kubectl("get", "events", "--field-selector=involvedObject.name="+pod)
	if strings.Contains(events, "RDMA") {
		r.t.Errorf("%s has events:\n%s", pod, events)
	}
}

// talks: what the pods send on a rail arrives, and goes over the cable of this rail alone.
func (r *rails) talks(rail int) {
	r.t.Helper()
	before := r.sent()
	to := address(0, rail)
	const kilobytes = 64
	server, err := bed.Begin(bed.Command(r.t.Context(), "kubectl", "--namespace="+r.n.Name, "exec", r.pods[0], "--",
		"sh", "-c", "timeout 60 nc -l -p 7000 -e sh -c 'wc -c > /tmp/received'"))
	must.NoError(r.t, err)
	send := fmt.Sprintf("dd if=/dev/zero bs=1k count=%d 2>/dev/null | timeout 10 nc %s 7000", kilobytes, to)
	testbed.Eventually(r.t, "the server of rail "+strconv.Itoa(rail), func() error {
		if out := r.n.Sh(r.pods[1], "rank", send+" && echo sent"); out != "sent" {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if err := server(); err != nil {
		r.t.Error(err)
	}
	if got := r.n.Sh(r.pods[0], "rank", "cat /tmp/received"); got != strconv.Itoa(kilobytes*1024) {
		r.t.Errorf("rail %d: received %s", rail, got)
	}
	for other, now := range r.sent() {
		bytes := now - before[other]
		if other == rail && bytes < kilobytes*1024 || other != rail && bytes > kilobytes*1024/2 {
			r.t.Errorf("traffic of rail %d: node2 has sent %d bytes on rail %d", rail, bytes, other)
		}
	}
}

// sent are the bytes that the second node has sent, by rail.
func (r *rails) sent() (all [8]int) {
	r.t.Helper()
	for rail, link := range railLinks {
		out := r.nodes[1].Inside(r.t, "ip", "-s", "-o", "link", "show", "dev", link)
		fields := strings.Fields(out[strings.Index(out, "TX:"):])
		for i, field := range fields { // behind the heading "TX: bytes packets ..."
			if bytes, err := strconv.Atoi(field); err == nil && i > 0 {
				all[rail] = bytes
				break
			}
		}
	}
	return all
}

// nccl: the line of NCCL that the document shows has the claim's HCAs. NCCL sorts them by PCI address, which is the
// order of the rails.
func (r *rails) nccl(page *docs.Page) {
	r.t.Helper()
	line := "NET/IB : Using"
	for i, name := range strings.Split(names, ",") {
		line += fmt.Sprintf(" [%d]%s:1/RoCE", i, name)
	}
	for _, block := range page.Blocks {
		if strings.Contains(block.Text, line+" [RO]; OOB eth0:") {
			return
		}
	}
	r.t.Errorf("docs/nccl.md has no line %s", line)
}

// numbered: where nodes have no pod CIDR, the labels of docs/network.md say which block is a node's.
func (r *rails) numbered(s *shell, values string) {
	r.t.Helper()
	page, err := docs.Read(bed.Checkout.Path("docs", "network.md"))
	must.NoError(r.t, err)
	i := slices.IndexFunc(page.Blocks, func(b docs.Block) bool { return strings.HasPrefix(b.Text, "number=0\n") })
	if i < 0 {
		r.t.Fatal("docs/network.md numbers no nodes")
	}
	r.t.Cleanup(func() { bed.Kubectl(r.t, "label", "node", "node1", "node-restriction.kubernetes.io/rdma-block-") })
	s.run(page.Blocks[i].Text)
	const byCIDR, byLabel = "clusterCIDR: [10.244.0.0/16]", "label: node-restriction.kubernetes.io/rdma-block"
	if strings.Count(values, byCIDR) != len(railLinks) || !strings.Contains(values, byLabel) {
		r.t.Errorf("the values do not say how to use labels:\n%s", values)
	}
	bed.Configure(r.t, strings.ReplaceAll(values, byCIDR, byLabel))
	testbed.Eventually(r.t, "the block of node2", func() error {
		out, err := bed.Output("kubectl", "--namespace=dra-driver-rdma", "exec", r.driver("node2"), "--",
			"dra-driver", "explain", "--config=/etc/rdma.dev/config.yaml", "--host-root=/host")
		blocks := []string{"rail0   10.80.0.0/16   10.80.1.0/24", "rail7   10.87.0.0/16   10.87.1.0/24"}
		if err != nil || !testbed.ContainsAll(out, blocks) {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
}
