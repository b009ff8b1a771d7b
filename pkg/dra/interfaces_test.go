package dra_test

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
)

// The VF of the machine roce-sriov that pods get here, and its interface.
const (
	vf       = "pci-0000-3b-00-2"
	vfNetdev = "ens1f0v0"
)

// attaching makes a host with the interfaces of HCAs that are used here, in a namespace of the real kernel.
func attaching(t *testing.T, ipam string) (*podnettest.Namespace, func(*dra.Config)) {
	t.Helper()
	host := podnettest.New(t)
	for _, name := range []string{vfNetdev, "ens1f0v1", "ens1f0np0", "ens1f1np1"} {
		host.Wire(name)
	}
	host.IP("addr add 10.1.0.1/24 dev " + vfNetdev)
	host.IP("addr add 192.0.2.1/24 dev ens1f1np1")
	return host, func(c *dra.Config) {
		c.Interfaces, c.NRISocket = podnet.On(host.Namespace, "rdma.dev", []netip.Addr{netip.MustParseAddr("192.0.2.1")}), filepath.Join(c.HostRoot, "no-nri.sock")
		c.IPAM = &podnet.IPAM{Owner: "rdma.dev", Dir: ipam}
	}
}

// inside is a pod with a network namespace of the real kernel.
func inside(t *testing.T, name string) (nri.Pod, *podnettest.Namespace) {
	ns := podnettest.New(t)
	pod := podNamed(name)
	pod.Netns = ns.Path()
	return pod, ns
}

// TestInterfaces: the interface is in the pod before its containers, the status says what it is
// like there, a driver that comes back finds it, and it comes back to the host as it was.
func TestInterfaces(t *testing.T) {
	t.Parallel()
	for mode, gone := range map[string]bool{"move": true, "macvlan": false} {
		t.Run(mode, func(t *testing.T) {
			host, attach := attaching(t, "")
			n := drivertest.NewNode(t, "roce-sriov")
			d := start(t, n, attach, withStatus)
			pod, ns := inside(t, "a")
			claim := drivertest.WithNetwork(reserved(1, pod, vf), `{"mode": "`+mode+`", "addresses": ["10.9.0.2/24"],
				"mtu": 1400, "routes": [{"destination": "10.10.0.0/16", "gateway": "10.9.0.1"}]}`)
			n.AddClaim(claim)
			prepare(t, n, claim)
			test.StrContains(t, specSays(t, n, claim), `"rdma0:rdma.dev/claim/`+string(claim.UID)+`/`+vf+`"`,
				test.Sprint("the hook does not look for the interface"))
			for range 2 {
				must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
			}
			_, err := host.Try("link show dev " + vfNetdev)
			test.Eq(t, gone, (err != nil), test.Sprintf("on the host: %v", err))
			wantNetwork(t, n, claim, ns)
			d.stop()
			d = start(t, n, attach, withStatus)
			d.Sandboxes().Running(t.Context(), []nri.Pod{pod})
			prepare(t, n, claim) // as a restarted kubelet does
			wantNetwork(t, n, claim, ns)
			for range 2 { // StopPodSandbox and RemovePodSandbox
				d.Sandboxes().Stopped(t.Context(), pod)
			}
			out := host.IP("-br addr show dev " + vfNetdev)
			test.True(t, strings.Contains(out, "UP") && strings.Contains(out, "10.1.0.1/24"),
				test.Sprintf("on the host after it: %s", out))
			out, err = ns.Try("link show dev rdma0")
			test.Error(t, err, test.Sprintf("in the pod after it: %s", out))
			noRecords(t, n)
		})
	}
}

// wantNetwork compares the status of a claim with what the kernel says.
func wantNetwork(t *testing.T, n *drivertest.Node, claim *resourceapi.ResourceClaim, ns *podnettest.Namespace) {
	t.Helper()
	mac := strings.Fields(ns.IP("-br link show dev rdma0"))[2]
	want := &resourceapi.NetworkDeviceData{InterfaceName: "rdma0", HardwareAddress: mac, IPs: []string{"10.9.0.2/24"}}
	drivertest.Eventually(t, func() error {
		status := n.DeviceStatus(claim)
		if len(status) == 0 {
			return errors.New("no status")
		}
		if diff := cmp.Diff(want, status[0].NetworkData); diff != "" {
			return fmt.Errorf("network data (-want +got):\n%s", diff)
		}
		return nil
	})
}

func noRecords(t *testing.T, n *drivertest.Node) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(n.PluginDir(), "interfaces", "*"))
	test.True(t, err == nil && len(left) == 0, test.Sprintf("records that are left: %v, %v", left, err))
}

// TestInterfacesOfTwoClaims: a pod with two claims that name nothing has an interface of each, and the variables of
// its containers say which is which. After a restart of the kubelet the names are as they were.
func TestInterfacesOfTwoClaims(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach)
	pod, ns := inside(t, "a")
	claims := []*resourceapi.ResourceClaim{
		drivertest.WithNetwork(reserved(1, pod, "pci-0000-3b-00-0"), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`),
		drivertest.WithNetwork(reserved(2, pod, vf), `{"mode": "move", "addresses": ["10.9.1.2/24"]}`),
	}
	n.AddClaim(claims...)
	for range 2 {
		for i, variable := range []string{"RDMA_INTERFACE_PCI_0000_3B_00_0=rdma0", "RDMA_INTERFACE_PCI_0000_3B_00_2=rdma1"} {
			prepare(t, n, claims[i])
			test.StrContains(t, specSays(t, n, claims[i]), variable, test.Sprintf("spec %d lacks", i))
		}
	}
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	for name, address := range map[string]string{"rdma0": "10.9.0.2/24", "rdma1": "10.9.1.2/24"} {
		test.StrContains(t, ns.IP("-br addr show dev "+name), address)
	}
	clash := drivertest.WithNetwork(reserved(3, pod, "pci-0000-3b-00-3"), `{"mode": "macvlan", "interface": "rdma1"}`)
	n.AddClaim(clash)
	refused(t, n, clash, "claim team-a/claim-2 has rdma1 in the same pod")
	d.Sandboxes().Stopped(t.Context(), pod)
	noRecords(t, n)
}

// TestInterfacesRefused: what cannot work is said when the claim is prepared.
func TestInterfacesRefused(t *testing.T) {
	host, attach := attaching(t, "")
	host.IP("link add br0 type bridge")
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, "rules:", "- name: vfs", "  resourceName: example.com/vf", "  selectors:", `  - cel: {expression: 'device.attributes["rdma.dev"].function == "vf"'}`)
	start(t, n, attach, m.with(t))
	pod, _ := inside(t, "a")
	for i, c := range []struct{ device, network, says string }{
		{"pci-0000-3b-00-1", `{"mode": "move"}`, "the host uses it: it has the node's address 192.0.2.1"},
		{"pci-0000-3b-00-0", `{"mode": "move"}`, "the host uses it: its device has 8 virtual functions"},
		{"pci-0000-3b-00-0", `{"mode": "macvlan"}`, "the host uses it: it is a part of br0"},
		{vf, `{"mode": "move"}`, "example.com/vf (resourceName of its rule)"},
		{"pci-0000-3b-00-1", `{"mode": "macvlan", "ipam": "roce"}`, `no entry "roce" under ipam`},
	} {
		if strings.Contains(c.says, "br0") {
			host.IP("link set ens1f0np0 master br0")
		}
		claim := drivertest.WithNetwork(reserved(i+1, pod, c.device), c.network)
		n.AddClaim(claim)
		refused(t, n, claim, c.says)
		if h := rdmatest.Snapshot(t, "roce-sriov").Lookup(c.device); strings.Contains(c.says, "host uses it") { // explain says the same
			_, mode, _ := strings.Cut(strings.TrimSuffix(c.network, `"}`), `: "`)
			on := podnet.On(host.Namespace, "rdma.dev", []netip.Addr{netip.MustParseAddr("192.0.2.1")})
			_, _, err := pods.UsableInterface(on, h, mode, 0)
			test.ErrorContains(t, err, c.says, test.Sprintf("%s of %s", mode, c.device))
		}
	}
}

// TestInterfacesOfVLANs: shares of one HCA are in one VLAN, that of the rule or that of the claims, and have one kind
// of interface. Another claim is refused, until those before it have ended.
func TestInterfacesOfVLANs(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, publish("shared", "  vlan: 100")...)
	start(t, n, attach, m.with(t))
	waitFor(t, n, "shared-"+hca0)
	var claims []*resourceapi.ResourceClaim
	for i, network := range []string{
		`{"mode": "macvlan"}`, `{"mode": "none"}`, `{"mode": "macvlan", "vlan": 200}`, `{"mode": "ipvlan"}`,
		`{"mode": "none", "vlan": 200}`,
	} {
		claims = append(claims, drivertest.WithNetwork(drivertest.Share(i+1, nil, "shared-"+hca0), network))
	}
	n.AddClaim(claims...)
	prepare(t, n, claims[0])
	prepare(t, n, claims[1])
	refused(t, n, claims[2], "this claim has VLAN 200 on it, and that one VLAN 100")
	refused(t, n, claims[3], "the kernel does not allow ipvlan and macvlan on top of one interface")
	refused(t, n, claims[4], "this claim has VLAN 200 on it, and that one VLAN 100")
	prepare(t, n, claims[0]) // as a restarted kubelet does
	unprepare(t, n, claims[0])
	prepare(t, n, claims[3])
	unprepare(t, n, claims[1])
	unprepare(t, n, claims[3])
	prepare(t, n, claims[2])
	refused(t, n, claims[0], "this claim has VLAN 100 on it, and that one VLAN 200")
}

// TestInterfaceOnItsWay: Prepare waits a moment for an interface that the last pod had until now.
func TestInterfaceOnItsWay(t *testing.T) {
	t.Parallel()
	host, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n, attach)
	pod, _ := inside(t, "a")
	claim := drivertest.WithNetwork(reserved(1, pod, vf), `{"mode": "move"}`)
	n.AddClaim(claim)
	host.IP("link set " + vfNetdev + " down")
	host.IP("link set " + vfNetdev + " name elsewhere")
	back := make(chan struct{})
	go func() {
		defer close(back)
		out, err := host.Try("link set elsewhere name " + vfNetdev)
		test.NoError(t, err, test.Sprint(out))
	}()
	prepare(t, n, claim)
	<-back
	host.IP("link set " + vfNetdev + " name elsewhere")
	next := drivertest.WithNetwork(reserved(2, pod, "pci-0000-3b-00-3"), `{"mode": "move"}`)
	host.IP("link set ens1f0v1 down")
	host.IP("link set ens1f0v1 name away")
	n.AddClaim(next)
	refused(t, n, next, `network interface "ens1f0v1": the host has none of that name now`)
}
