package dra_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
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

// wanting gives a claim parameters, and a class that allows all of them.
func wanting(c *resourceapi.ResourceClaim, network string) *resourceapi.ResourceClaim {
	for source, fields := range map[resourceapi.AllocationConfigSource]string{
		resourceapi.AllocationConfigSourceClass: `"kind": "HCAClassConfig", "allow": {"network": {` +
			`"modes": ["move", "macvlan", "ipvlan"], "vlans": [200], ` +
			`"addresses": ["10.0.0.0/8"], "ipam": ["roce"], "routes": ["10.0.0.0/8"], "mtuMax": 9000}}`,
		resourceapi.AllocationConfigSourceClaim: `"kind": "HCAConfig", "network": ` + network,
	} {
		c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{
			Source: source, DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "rdma.dev", Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion": "rdma.dev/v1alpha1", ` + fields + `}`)},
			}},
		})
	}
	return c
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
			claim := wanting(reserved(1, pod, vf), `{"mode": "`+mode+`", "addresses": ["10.9.0.2/24"], "mtu": 1400, "routes": [{"destination": "10.10.0.0/16", "gateway": "10.9.0.1"}]}`)
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

// TestInterfacesFail: a pod that cannot have its interface does not start, and nothing is left of it.
func TestInterfacesFail(t *testing.T) {
	host, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach)
	pod, ns := inside(t, "a")
	ns.Wire("rdma0") // something else of the name
	both := wanting(reserved(1, pod, "pci-0000-3b-00-3", vf), `{"mode": "move"}`)
	n.AddClaim(both)
	prepare(t, n, both)
	links := func() (names []string) {
		for line := range strings.Lines(host.IP("-br link")) {
			names = append(names, strings.Fields(line)[0])
		}
		return slices.Sorted(slices.Values(names))
	}
	before := links()
	err := d.Sandboxes().Started(t.Context(), pod)
	test.ErrorContains(t, err, "the pod has another interface of that name already")
	ns.IP("link del rdma0")
	ns.Wire("rdma1") // now the second one fails, and the first one comes back
	test.Error(t, d.Sandboxes().Started(t.Context(), pod), test.Sprint("the pod was started"))
	test.Eq(t, before, links(), test.Sprint("on the host"))
	noRecords(t, n)
	onHost := pod
	onHost.Netns = ""
	test.ErrorContains(t, d.Sandboxes().Started(t.Context(), onHost), "hostNetwork",
		test.Sprint("with the host's network"))
}

// TestLacksLoggedOnce: the reason why a running pod lacks its interface is logged once, and not in each retry.
func TestLacksLoggedOnce(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach)
	pod, ns := inside(t, "a")
	claim := wanting(reserved(1, pod, vf), `{"mode": "move"}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	ns.Wire("rdma0") // something else of the name
	ctx, logged := logging(t)
	for range 3 {
		d.Sandboxes().Running(ctx, []nri.Pod{pod})
	}
	const line = "Pod does not have its RDMA devices yet"
	if got := strings.Count(logged.String(), line); got != 1 {
		t.Errorf("after three tries the log has %d times %q:\n%s", got, line, logged.String())
	}
	ns.IP("link del rdma0")
	d.Sandboxes().Running(t.Context(), []nri.Pod{pod})
	ns.IP("link show dev rdma0")
}

// TestInterfacesOfTwoClaims: a pod with two claims that name nothing has an interface of each, and the variables of
// its containers say which is which. After a restart of the kubelet the names are as they were.
func TestInterfacesOfTwoClaims(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach)
	pod, ns := inside(t, "a")
	claims := []*resourceapi.ResourceClaim{
		wanting(reserved(1, pod, "pci-0000-3b-00-0"), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`),
		wanting(reserved(2, pod, vf), `{"mode": "move", "addresses": ["10.9.1.2/24"]}`),
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
	clash := wanting(reserved(3, pod, "pci-0000-3b-00-3"), `{"mode": "macvlan", "interface": "rdma1"}`)
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
		claim := wanting(reserved(i+1, pod, c.device), c.network)
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
		claims = append(claims, wanting(drivertest.Share(i+1, nil, "shared-"+hca0), network))
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

// TestInterfacesLowMTU: a pod whose interface gives smaller RDMA packets than the HCA can send starts, with an event.
// With the interface of the HCA itself the HCA follows, so there is nothing to say.
func TestInterfacesLowMTU(t *testing.T) {
	host, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach, withEvents)
	for i, c := range []struct{ hca, netdev, network string }{
		{"pci-0000-3b-00-3", "ens1f0v1", `{"mode": "move", "mtu": 1500}`},
		{"pci-0000-3b-00-0", "ens1f0np0", `{"mode": "macvlan", "mtu": 4192}`},
		{vf, vfNetdev, `{"mode": "macvlan", "mtu": 1500}`},
	} {
		host.IP("link set w-" + c.netdev + " mtu 9000")
		host.IP("link set " + c.netdev + " mtu 9000")
		pod, _ := inside(t, fmt.Sprint("pod-", i))
		claim := wanting(reserved(i+1, pod, c.hca), c.network)
		n.AddClaim(claim)
		prepare(t, n, claim)
		must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
		if c.hca != vf {
			continue
		}
		const says = "pod pod-2: network interface rdma0 has MTU 1500, " +
			"so RDMA connections over it have packets of 1024 bytes, and the HCA can have 4096: that needs MTU 4192"
		drivertest.Eventually(t, func() error { return told(n, claim, "RDMALowMTU", says) })
	}
	var others []string
	for _, e := range n.Events() { // the last event is there, so those of the pods before it would be
		if e.Reason == "RDMALowMTU" && !strings.Contains(e.Message, "pod-2") {
			others = append(others, e.Message)
		}
	}
	test.Eq(t, 0, len(others), test.Sprintf("other events: %q", others))
}

// TestInterfacesUnseen: a sandbox ends while no driver is there. The next driver gives its address
// back, which the next pod then gets: the range has no other.
func TestInterfacesUnseen(t *testing.T) {
	_, attach := attaching(t, podnettest.Plugins(t))
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, "ipam:", "  roce: {type: host-local, dataDir: "+t.TempDir()+", ranges: [[{subnet: 10.78.0.0/30, gateway: 10.78.0.2}]]}")
	d := start(t, n, attach, m.with(t))
	link := filepath.Join(t.TempDir(), "netns")
	pod, ns := inside(t, "a")
	must.NoError(t, os.Symlink(pod.Netns, link))
	pod.Netns = link
	claim := wanting(reserved(1, pod, vf), `{"mode": "macvlan", "ipam": "roce"}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	test.StrContains(t, ns.IP("-br addr show dev rdma0"), "10.78.0.1/30", test.Sprint("addresses"))
	d.stop()
	must.NoError(t, os.Remove(link))
	d = start(t, n, attach, m.with(t))
	again, ns := inside(t, "a") // the same pod in another sandbox
	must.NoError(t, d.Sandboxes().Started(t.Context(), again))
	test.StrContains(t, ns.IP("-br addr show dev rdma0"), "10.78.0.1/30",
		test.Sprint("addresses in the next sandbox"))
	d.Sandboxes().Stopped(t.Context(), again)
	noRecords(t, n)
}

// TestInterfacesOfEndedSandboxes: a runtime that is connected lists sandboxes that have ended beside the one
// that their pod has now, with or without the path of their network namespace.
func TestInterfacesOfEndedSandboxes(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach)
	pod, ns := inside(t, "a")
	claim := wanting(reserved(1, pod, vf), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	ended, nameless := pod, pod
	ended.Netns, nameless.Netns = filepath.Join(t.TempDir(), "netns"), ""
	index := ns.IP("-o link show dev rdma0")
	for range 10 { // in any order
		d.Sandboxes().Running(t.Context(), []nri.Pod{ended, pod, nameless})
	}
	test.Eq(t, index, ns.IP("-o link show dev rdma0"), test.Sprint("the interface"))
	for _, event := range reasons(d.Status(t.Context())) {
		test.StrNotContains(t, event, "RDMAMoveFailed", test.Sprint("the page"))
	}
}

// TestInterfacesLater: the interface of a pod that started while nobody looked is not there yet. The pod gets
// it when it is: nobody tells the driver again of a pod that runs.
func TestInterfacesLater(t *testing.T) {
	t.Parallel()
	host, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach, withStatus)
	pod, ns := inside(t, "a")
	claim := wanting(reserved(1, pod, vf), `{"mode": "move", "addresses": ["10.9.0.2/24"]}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	host.IP("link set " + vfNetdev + " down")
	host.IP("link set " + vfNetdev + " name elsewhere")
	d.Sandboxes().Running(t.Context(), []nri.Pod{pod})
	out, err := ns.Try("link show dev rdma0")
	must.Error(t, err, must.Sprintf("it is there: %s", out))
	host.IP("link set elsewhere name " + vfNetdev)
	drivertest.Eventually(t, func() error { _, err := ns.Try("link show dev rdma0"); return err })
	wantNetwork(t, n, claim, ns)
	d.Sandboxes().Stopped(t.Context(), pod)
	noRecords(t, n)
}

// TestInterfaceOnItsWay: Prepare waits a moment for an interface that the last pod had until now.
func TestInterfaceOnItsWay(t *testing.T) {
	t.Parallel()
	host, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n, attach)
	pod, _ := inside(t, "a")
	claim := wanting(reserved(1, pod, vf), `{"mode": "move"}`)
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
	next := wanting(reserved(2, pod, "pci-0000-3b-00-3"), `{"mode": "move"}`)
	host.IP("link set ens1f0v1 down")
	host.IP("link set ens1f0v1 name away")
	n.AddClaim(next)
	refused(t, n, next, `network interface "ens1f0v1": the host has none of that name now`)
}

// TestInterfaceOfFunction: on each machine the interface of an HCA is that of its own function, be it a VF or an
// SF, and never a representor, which is a port of the PF's switch.
func TestInterfaceOfFunction(t *testing.T) {
	has := map[rdma.Function]int{}
	for _, machine := range fixture.Names() {
		m, err := fixture.Load(machine)
		must.NoError(t, err)
		sys := m.FS(t)
		snap := rdmatest.Discover(t, m)
		for _, h := range snap.Usable() {
			netdev, err := pods.NetdevOf(h)
			if err != nil || h.Identity.PCI == "" {
				continue
			}
			link, err := sys.ReadLink("class/net/" + netdev)
			must.NoError(t, err)
			of := h.Identity.PCI
			if h.Identity.SF != nil {
				of = "mlx5_core.sf."
			}
			if strings.Contains(link, "/virtio") || strings.Contains(link, "/virtual/") {
				continue // eRDMA has its interface on another device, and a bond is of several
			}
			port, _ := fs.ReadFile(sys, "class/net/"+netdev+"/phys_port_name")
			before, _, _ := strings.Cut(link, "/net/")
			test.True(t, strings.Contains(path.Base(before), of) && !strings.Contains(string(port), "vf"),
				test.Sprintf("%s: the interface of %s, a %s, is %s, port %q", machine, h.Name, h.Function, link,
					port))
			has[h.Function]++
		}
	}
	for _, f := range []rdma.Function{rdma.PF, rdma.VF, rdma.SF} {
		test.NotEq(t, 0, has[f], test.Sprintf("no machine has an interface of a %s", f))
	}
}

// TestInterfaceOfPorts: an HCA with one interface has that, whatever representors stand beside it.
func TestInterfaceOfPorts(t *testing.T) {
	up, second := rdma.Port{Number: 1, Netdev: "up"}, rdma.Port{Number: 2, Netdev: "second"}
	representor := rdma.Port{Number: 3, Netdev: "pf0vf0", Representor: true}
	for name, tc := range map[string]struct {
		protocol rdma.Protocol
		ports    []rdma.Port
		want     string
		says     string
	}{
		"one":             {rdma.ProtocolRoCE, []rdma.Port{up}, "up", ""},
		"iWARP":           {rdma.ProtocolIWARP, []rdma.Port{up}, "up", ""},
		"representors":    {rdma.ProtocolRoCE, []rdma.Port{representor, up, representor}, "up", ""},
		"a port without":  {rdma.ProtocolRoCE, []rdma.Port{{Number: 1}, second}, "second", ""},
		"two":             {rdma.ProtocolRoCE, []rdma.Port{up, second}, "", "the driver does not choose one"},
		"a pod has it":    {rdma.ProtocolRoCE, []rdma.Port{{Number: 1}}, "", "no network interface on the host now"},
		"no RoCE, no GID": {"", []rdma.Port{up, representor}, "", "only interfaces of RoCE and iWARP"},
	} {
		got, err := pods.NetdevOf(&rdma.HCA{Protocol: tc.protocol, Ports: tc.ports})
		test.True(t, got == tc.want && (err == nil) == (tc.says == "") &&
			(err == nil || strings.Contains(err.Error(), tc.says)),
			test.Sprintf("%s: %q, %v, want %q, %q", name, got, err, tc.want, tc.says))
	}
}

// TestInterfacesExclusive: the RDMA device goes into the pod before its interface, and comes back before it, also
// from a pod that cannot have all.
func TestInterfacesExclusive(t *testing.T) {
	host := podnettest.New(t)
	const netdev = "ens1np0"
	host.Wire(netdev)
	n := drivertest.NewNode(t, "exclusive-netns")
	k := &kernel{t: t, host: n}
	d := startHearing(t, n, make(chan watch.Signal), k.moving, quick, func(c *dra.Config) { c.Interfaces = podnet.On(host.Namespace, "rdma.dev", nil) })
	pod, ns := inside(t, "a")
	claim := wanting(reserved(1, pod, onlyHCA), `{"mode": "move", "addresses": ["10.9.0.2/24"], "routes": [{"destination": "10.10.0.0/16", "gateway": "10.9.0.1"}]}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	came := 0
	k.out = func() {
		came++
		_, err := host.Try("link show dev " + netdev)
		test.Error(t, err, test.Sprint("the interface has come back before the RDMA device"))
	}
	back := func(moves int) {
		t.Helper()
		host.IP("link show dev " + netdev)
		where, _ := k.at()
		test.True(t, where == "" && came == moves,
			test.Sprintf("the RDMA device is in %q, and came back %d times, want %d", where, came, moves))
		noRecords(t, n)
	}
	ns.Wire("other")
	ns.IP("route add 10.10.0.0/16 dev other")
	test.ErrorContains(t, d.Sandboxes().Started(t.Context(), pod), "the pod has a route there already")
	back(1)
	ns.IP("link del other")
	must.NoError(t, d.Sandboxes().Started(t.Context(), pod))
	ns.IP("link show dev rdma0")
	where, _ := k.at()
	test.Eq(t, pod.Netns, where, test.Sprint("the RDMA device"))
	d.Sandboxes().Stopped(t.Context(), pod)
	back(2)
}
