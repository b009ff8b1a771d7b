package pods_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

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
