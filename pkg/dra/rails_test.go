package dra_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// railConfig gives each of two rails a subnet that is divided by the pod CIDRs of nodes.
var railConfig = []string{
	"ipam:",
	"  rail0: {subnet: 10.80.0.0/16, perNode: 24, clusterCIDR: [10.244.0.0/16]}",
	"  rail1: {subnet: 10.81.0.0/16, perNode: 24, clusterCIDR: [10.244.0.0/16]}",
	"rules:",
	"- {name: compute, rails: 2, railIPAM: [rail0, rail1]}",
}

// onRails has the devices of a claim be those of one request, which asks for macvlans with the addresses of the rails.
func onRails(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Status.Allocation.Devices.Results {
		c.Status.Allocation.Devices.Results[i].Request = "nics"
	}
	c = drivertest.WithNetwork(c, `{"mode": "macvlan", "ipam": "rail"}`)
	for _, config := range c.Status.Allocation.Devices.Config {
		raw := &config.Opaque.Parameters.Raw
		config.Opaque.Parameters.Raw = []byte(strings.Replace(string(*raw), `"ipam": ["roce"]`, `"ipam": ["rail"]`, 1))
	}
	return c
}

// hasPodCIDR gives the node of an API server a pod CIDR.
func hasPodCIDR(n *drivertest.Node, cidr string) {
	n.ChangeNode(func(node *corev1.Node) { node.Spec.PodCIDRs = []string{cidr} })
}

// TestRails: a claim with two HCAs has an address of each one's rail, in the node's blocks. The status page and the
// metrics say who has them, and the pod's end frees them.
func TestRails(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	hasPodCIDR(n, "10.244.3.0/24")
	d := start(t, n, attach, withStatus, newConfigMap(t, railConfig...).with(t))
	drivertest.WaitPublished(t, n)
	pod, ns := inside(t, "a")
	claim := onRails(reserved(1, pod, "pci-0000-3b-00-0", "pci-0000-3b-00-1"))
	n.AddClaim(claim)
	prepare(t, n, claim)
	for range 2 {
		must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	}
	for name, address := range map[string]string{"rdma0": "10.80.3.1/16", "rdma1": "10.81.3.1/16"} {
		test.StrContains(t, ns.IP("-br addr show dev "+name), address)
	}
	address := func(a, name, device string) []blocks.Address {
		return []blocks.Address{{Address: a, Interface: name, Pod: "team-a/a", Claim: "team-a/claim-1", Device: device}}
	}
	want := []blocks.Usage{
		{
			IPAM: "rail0", Subnet: "10.80.0.0/16", Block: "10.80.3.0/24", Size: 254,
			Addresses: address("10.80.3.1", "rdma0", "pci-0000-3b-00-0"),
		},
		{
			IPAM: "rail1", Subnet: "10.81.0.0/16", Block: "10.81.3.0/24", Size: 254,
			Addresses: address("10.81.3.1", "rdma1", "pci-0000-3b-00-1"),
		},
	}
	got := d.Status(t.Context()).IPAM
	test.Eq(t, []string{"mlx5_1"}, got[1].HCAs, test.Sprint("HCAs of rail1"))
	test.SliceContains(t, got[0].HCAs, "mlx5_0", test.Sprint("HCAs of rail0"))
	got[0].HCAs, got[1].HCAs = nil, nil
	test.Eq(t, want, got, test.Sprint("status"))
	d.Sandboxes().Stopped(t.Context(), pod)
	for _, b := range d.Status(t.Context()).IPAM {
		test.Eq(t, 0, len(b.Addresses), test.Sprintf("after the pod: %+v", b))
	}
}

// TestReservedByPool: what a pool of the node reserves, no claim gets by naming it, although its class allows the whole
// subnet and the claim uses no IPAM. An address of the node's own block works.
func TestReservedByPool(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	hasPodCIDR(n, "10.244.3.0/24")
	d := start(t, n, attach, newConfigMap(t, twoEntries(
		"subnet: 10.80.0.0/16, perNode: 24, gateway: 10.80.0.1, "+cluster,
		"subnet: 10.81.0.0/16, perNode: 24, gateway: 10.81.0.1, "+cluster,
	)...).with(t))
	drivertest.WaitPublished(t, n)
	pod, ns := inside(t, "a")
	number := 1
	naming := func(address string) *resourceapi.ResourceClaim {
		number++
		claim := drivertest.WithNetwork(reserved(number, pod, vf), `{"mode": "macvlan", "addresses": ["`+address+`"]}`)
		n.AddClaim(claim)
		return claim
	}
	for address, says := range map[string]string{
		"10.80.0.1/16":     "ipam rail0 reserves 10.80.0.1/16: 10.80.0.1 is the gateway",
		"10.81.0.1/32":     "ipam rail1 reserves 10.81.0.1/32: 10.81.0.1 is the gateway", // of the other rail
		"10.80.7.5/16":     "in another node's block",
		"10.80.255.255/16": "treat specially",
		"10.80.3.255/24":   "given to nobody",
	} {
		refused(t, n, naming(address), "network: addresses[0]: ", says)
	}
	prepare(t, n, naming("10.80.3.9/16"))
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	test.StrContains(t, ns.IP("-br -4 addr show dev rdma0"), "10.80.3.9/16", test.Sprint("the pod"))
}

// TestNoBlock: a node without a pod CIDR has no block. Claims that need it say why, others work, the node has an event,
// and the status page a problem. When the node has one, it works without a restart of the driver.
func TestNoBlock(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach, withStatus, newConfigMap(t, railConfig...).with(t))
	drivertest.WaitPublished(t, n)
	pod, ns := inside(t, "a")
	claim := onRails(reserved(1, pod, "pci-0000-3b-00-0"))
	other := drivertest.WithNetwork(reserved(2, pod, vf), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`)
	n.AddClaim(claim, other)
	const says = "node node1 has no pod CIDR (spec.podCIDRs)"
	refused(t, n, claim, "network: ipam rail0: "+says, "use label if the network of this cluster assigns none")
	prepare(t, n, other)
	wantFiles(t, n, other)
	page := d.Status(t.Context())
	problems := "\n" + strings.Join(page.Problems, "\n")
	test.True(t, strings.Contains(problems, "\nclaims get no address of ipam rail0: "+says) && len(page.IPAM) == 2 &&
		strings.HasPrefix(page.IPAM[0].Problem, says),
		test.Sprintf("problems %q, blocks %+v", page.Problems, page.IPAM))
	got := page.IPAM[0]
	test.True(t, got.IPAM == "rail0" && got.Size == 0 && len(got.Addresses) == 0, test.Sprintf("block %+v", got))
	drivertest.Eventually(t, func() error {
		for _, e := range n.Events() {
			if e.Reason == "RDMANoAddressBlock" && e.InvolvedObject.Kind == "Node" && strings.Contains(e.Message, says) {
				return nil
			}
		}
		return fmt.Errorf("events %v", n.Events())
	})
	hasPodCIDR(n, "10.99.0.0/24")
	n.Restart() // the kubelet, so that the driver reads the node
	drivertest.Eventually(t, func() error {
		const outside = "pod CIDR 10.99.0.0/24 of node node1 is in none of the networks of clusterCIDR"
		if err := prepared(t, n, claim); err == nil || !strings.Contains(err.Error(), outside) {
			return fmt.Errorf("error %w, want %s", err, outside)
		}
		return nil
	})
	hasPodCIDR(n, "10.244.255.0/24")
	n.Restart()
	drivertest.Eventually(t, func() error { return prepared(t, n, claim) })
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	test.StrContains(t, ns.IP("-br addr"), "10.80.255.1/16", test.Sprint("addresses"))
}

// TestNoBlockYet: a node gets its pod CIDR a moment after the driver has started. The next try of the kubelet but one
// succeeds: a claim has the driver read the node again, though not more often than each ten seconds.
func TestNoBlockYet(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	began, ahead := time.Now(), atomic.Int64{}
	now := func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	start(t, n, attach, newConfigMap(t, railConfig...).with(t), func(c *dra.Config) { c.SetClock(now) })
	drivertest.WaitPublished(t, n)
	pod, _ := inside(t, "a")
	claim := onRails(reserved(1, pod, "pci-0000-3b-00-0"))
	n.AddClaim(claim)
	drivertest.Eventually(t, func() error { // at its start, for the slices' owner, and at the registration
		if got := n.Count(drivertest.GetNode); got < 3 || n.Open() > 0 {
			return fmt.Errorf("the driver has asked for the node %d times, and waits for %d answers", got, n.Open())
		}
		return nil
	})
	hasPodCIDR(n, "10.244.3.0/24")
	asked := n.Count(drivertest.GetNode)
	for range 3 {
		refused(t, n, claim, "has no pod CIDR")
	}
	test.Eq(t, asked, n.Count(drivertest.GetNode), test.Sprint("requests of the node within ten seconds"))
	ahead.Add(int64(10 * time.Second))
	refused(t, n, claim, "has no pod CIDR")
	drivertest.Eventually(t, func() error { return prepared(t, n, claim) })
}

// prepared returns the error of one try to prepare a claim.
func prepared(t *testing.T, n *drivertest.Node, claim *resourceapi.ResourceClaim) error {
	response, err := n.Prepare(t.Context(), claim)
	if err == nil {
		_, err = drivertest.Devices(response, claim)
	}
	return err
}

// railNode is a node whose two rails lead to the same two switches as those of other nodes.
func railNode(t *testing.T, fabric *podnettest.Namespace, number int) (*drivertest.Node, func(*dra.Config)) {
	t.Helper()
	host := podnettest.New(t)
	for rail, name := range []string{"ens1f0np0", "ens1f1np1"} {
		port := fmt.Sprintf("n%dr%d", number, rail)
		fabric.IP(fmt.Sprintf("link add %s type veth peer name %s netns %d", port, name, host.Process()))
		fabric.IP(fmt.Sprintf("link set %s master rail%d up", port, rail))
		host.IP("link set " + name + " up")
	}
	n := drivertest.NewNode(t, "roce-sriov")
	hasPodCIDR(n, fmt.Sprintf("10.244.%d.0/24", number))
	return n, func(c *dra.Config) {
		c.Interfaces, c.NRISocket = podnet.On(host.Namespace, "rdma.dev", nil), c.HostRoot+"/no-nri.sock"
	}
}

// TestTwoNodes: claims with two HCAs on two nodes have four addresses in two subnets, and the pods reach each other on
// each rail.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	fabric := podnettest.New(t)
	for rail := range 2 {
		fabric.IP(fmt.Sprintf("link add rail%d type bridge", rail))
		fabric.IP(fmt.Sprintf("link set rail%d up", rail))
	}
	var inPods []*podnettest.Namespace
	for number := range 2 {
		n, attach := railNode(t, fabric, number)
		d := start(t, n, attach, newConfigMap(t, railConfig...).with(t))
		drivertest.WaitPublished(t, n)
		pod, ns := inside(t, "a")
		claim := onRails(reserved(1, pod, "pci-0000-3b-00-0", "pci-0000-3b-00-1"))
		n.AddClaim(claim)
		prepare(t, n, claim)
		must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
		inPods = append(inPods, ns)
	}
	for _, rail := range []string{"10.80", "10.81"} {
		for from, to := range []int{1, 0} {
			reach(t, inPods[from], fmt.Sprintf("%s.%d.1", rail, from), inPods[to], fmt.Sprintf("%s.%d.1", rail, to))
		}
	}
}

// reach connects from an address of one pod to an address of another one.
func reach(t *testing.T, from *podnettest.Namespace, source string, to *podnettest.Namespace, target string) {
	t.Helper()
	var l net.Listener
	err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", target+":0")
		return err
	})
	must.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = from.Do(func() error {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		c, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := io.ReadAll(c)
		if err == nil && string(text) != "hello" {
			err = fmt.Errorf("read %q", text)
		}
		return err
	})
	test.NoError(t, err, test.Sprintf("from %s to %s", source, target))
}

// TestBlockUsedUp: a pod that gets no address does not start. Its event says how many addresses there are and who has
// them. It starts when one is free.
func TestBlockUsedUp(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	hasPodCIDR(n, "10.244.3.0/24")
	d := start(t, n, attach, withEvents, newConfigMap(t, "ipam:",
		"  small: {subnet: 10.80.0.0/22, perNode: 30, clusterCIDR: [10.244.0.0/16]}",
		"rules: [{name: all, ipam: small}]").with(t))
	drivertest.WaitPublished(t, n)
	const says = "all 2 addresses of this node's block 10.80.0.12/30 are in use, 2 by pods of namespace team-a"
	var pods []nri.Pod
	for i, device := range []string{vf, "pci-0000-3b-00-3", "pci-0000-3b-00-0"} {
		pod, _ := inside(t, fmt.Sprint("p", i))
		pods = append(pods, pod)
		claim := onRails(reserved(i+1, pod, device))
		n.AddClaim(claim)
		prepare(t, n, claim)
		err := d.Sandboxes().Started(t.Context(), pod)
		test.True(t, (err != nil) == (i == 2) && (err == nil || strings.Contains(err.Error(), says)),
			test.Sprintf("pod %d: %v", i, err))
	}
	drivertest.Eventually(t, func() error {
		for _, e := range n.Events() {
			if e.Reason == "RDMAMoveFailed" && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == "p2" &&
				strings.Contains(e.Message, says) {
				return nil
			}
		}
		return fmt.Errorf("events %v", n.Events())
	})
	d.Sandboxes().Stopped(t.Context(), pods[0])
	test.NoError(t, d.Sandboxes().Started(t.Context(), pods[2]))
}
