package cdi_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		machine       string
		only, exclude []string
		want          string
		bad           string
	}{
		{"hgx-h100", nil, nil, "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8", ""},
		{"hgx-h100", []string{"mlx5_1"}, nil, "mlx5_1", ""},
		{"hgx-h100", []string{"0000:19:00.0"}, nil, "mlx5_0", ""},
		{"hgx-h100", []string{"pci-0000-19-00-0"}, nil, "mlx5_0", ""},
		{"hgx-h100", []string{"mlx5_[12]", "0000:7?:*"}, nil, "mlx5_1 mlx5_2 mlx5_7", ""},
		{"hgx-h100", nil, []string{"mlx5_?"}, "", ""},
		{"hgx-h100", []string{"mlx5_*"}, []string{"pci-0000-[1-7]*", "mlx5_8"}, "", ""},
		{"hgx-h100", nil, []string{"mlx5_1", "nothing"}, "", `no device matches "nothing": have mlx5_0, mlx5_1,`},
		{"hgx-h100", []string{"mlx5_1"}, []string{"mlx5_1"}, "", ""},
		{"hgx-h100", nil, []string{""}, "", `no device matches ""`},
		{"hgx-h100", []string{"mlx5_1", "mlx5_77"}, nil, "", `no device matches "mlx5_77": have mlx5_0, mlx5_1,`},
		{"hgx-h100", []string{"["}, nil, "", `match devices with "["`},
		{"hgx-h100", nil, []string{"["}, "", `match devices with "["`},
		{"many-uverbs", []string{"x"}, nil, "", "mlx5_15 and 24 more"},
		{"none", []string{"mlx5_0"}, nil, "", `no device matches "mlx5_0": have none`},
		// The address of a PF is not that of the subfunctions on it.
		{"mlx5-sf", []string{"0000:c1:00.0"}, nil, "mlx5_0", ""},
		{"mlx5-sf", []string{"pci-0000-c1-00-0-sf-*"}, nil, "mlx5_1 mlx5_2", ""},
		{"soft", []string{"soft-rxe-eth?"}, nil, "rxe0 rxe1", ""},
		{"roce-sriov", []string{"net-ens1f1np1", "guid-*"}, []string{"net-ens1f0v*"}, "mlx5_0 mlx5_1", ""},
	} {
		hcas, err := cdi.Select(rdmatest.Snapshot(t, c.machine).HCAs, c.only, c.exclude)
		var got []string
		for _, h := range hcas {
			got = append(got, h.IBDev)
		}
		switch {
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("%s, only %q, exclude %q: error %v; want one with %q", c.machine, c.only, c.exclude, err, c.bad)
		case c.bad == "" && (err != nil || strings.Join(got, " ") != c.want):
			t.Errorf("%s, only %q, exclude %q: %q, error %v; want %q", c.machine, c.only,
				c.exclude, got, err, c.want)
		}
	}
}

func TestHostDevices(t *testing.T) {
	type input struct {
		Machine string
		Options cdi.HostOptions
	}
	golden.Cases(t, "hostdevices", func(t *testing.T, in input) string {
		devices, err := cdi.HostDevices(rdmatest.Snapshot(t, in.Machine), in.Options)
		test.Eq(t, len(devices) == 0, errors.Is(err, cdi.ErrNoDevices) || errors.Is(err, cdi.ErrNoneListed),
			test.Sprintf("%d devices, and error %v", len(devices), err))
		return fmt.Sprintf("devices: [%s]\nerror: %v", describe(devices), err)
	})
}

// TestHostDevicesLimits: a device limits the HCAs that it gives, and one for MADs, which
// opens no context, none.
func TestHostDevicesLimits(t *testing.T) {
	opt := cdi.HostOptions{Names: cdi.DefaultNames[:1], Nodes: []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassMAD},
		Limit: args.Wanted{Handles: 64}}
	if devices, err := cdi.HostDevices(rdmatest.Snapshot(t, "irdma-e810"), opt); err == nil || devices != nil {
		t.Errorf("limits that no hook sets make %v, %v", devices, err)
	}
	opt.Hook = hook
	devices, err := cdi.HostDevices(rdmatest.Snapshot(t, "irdma-e810"), opt)
	must.NoError(t, err)
	got := map[string][]args.Limit{}
	for _, d := range devices {
		got[d.Name] = d.Hook.Options.Limits
	}
	one, other := limit("rocep24s0f0", 64, 0), limit("iwp24s0f1", 64, 0)
	want := map[string][]args.Limit{"rocep24s0f0": {one}, "iwp24s0f1": {other}, "rocep24s0f0-mad": nil, "all": {one, other}}
	test.Eq(t, want, got, test.Sprint("limits"))
}

// TestOnlyManagers: who chooses nothing but managers of NVSwitches learns why there are no devices.
func TestOnlyManagers(t *testing.T) {
	snap := rdmatest.Snapshot(t, "hgx-b200")
	snap.HCAs = snap.HCAs[8:]
	_, err := cdi.HostDevices(snap, cdi.HostOptions{Names: []cdi.NameStrategy{cdi.NameIBDev}, Nodes: rdma.DefaultClasses})
	test.True(t, errors.Is(err, cdi.ErrNoDevices) &&
		strings.Contains(err.Error(), "HCA mlx5_8 manages NVSwitches"), test.Sprintf("error %v", err))
}

// describe writes devices as "name:node+node name:node".
func describe(devices []cdi.Device) string {
	var out []string
	for _, d := range devices {
		var names []string
		for _, n := range d.Nodes {
			names = append(names, n.Name)
		}
		out = append(out, d.Name+":"+strings.Join(names, "+"))
	}
	return strings.Join(out, " ")
}

// TestHostDevicesOddNames: a name that the user gave an HCA may be no CDI name, or
// that of another device. It keeps its other name, and costs the others nothing.
func TestHostDevicesOddNames(t *testing.T) {
	snap := rdmatest.Snapshot(t, "soft")
	for i, name := range []string{"all", "rxe@home", "0rxe", "_"} {
		snap.HCAs[i].IBDev = name
	}
	devices, err := cdi.HostDevices(snap, cdi.HostOptions{Names: cdi.DefaultNames, Nodes: []rdma.NodeClass{rdma.ClassVerbs}})
	want := "all:uverbs2 soft-rxe-dummy0:uverbs2 soft-rxe-eth0:uverbs0 0rxe:uverbs1 soft-rxe-eth1:uverbs1 soft-rxe-veth0:uverbs3"
	test.Eq(t, want, describe(devices), test.Sprint("devices"))
	for _, bad := range []string{"HCA rxe@home cannot be listed as rxe@home", "use soft-rxe-eth0", "HCA _ cannot"} {
		test.ErrorContains(t, err, bad)
	}
	spec, err := cdi.NewSpec(cdi.KindHCA, devices)
	test.True(t, err == nil && spec.Version == "0.5.0",
		test.Sprintf("version %s, error %v; a name that starts with a digit needs 0.5.0", spec.Version, err))
}

// TestHostDevicesOneSpec: an HCA whose name cannot be in a spec, in a limit or beside that of
// another device costs no other HCA its devices.
func TestHostDevicesOneSpec(t *testing.T) {
	withMAD := []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassMAD}
	for _, c := range []struct {
		name    string
		ibdevs  []string // in place of rxe0, rxe1, rxe2
		opt     cdi.HostOptions
		want    string
		reasons []string
	}{
		{"the name of a management device", []string{"rxe0", "rxe0-mad", "rxe2"}, cdi.HostOptions{Nodes: withMAD},
			"soft-rxe-dummy0:uverbs2 rxe2:uverbs2",
			[]string{"HCA rxe0 cannot be listed as rxe0-mad (use soft-rxe-eth0-mad)",
				"HCA rxe0-mad cannot be listed as rxe0-mad (use soft-rxe-eth1)"}},
		{"a space in a limit", []string{"rxe0", "my rxe", "rxe2"},
			cdi.HostOptions{Nodes: withMAD, Limit: args.Wanted{Handles: 1}},
			"rxe0:uverbs0", []string{`HCA my rxe is left out: limit the RDMA device "my rxe"`}},
		{"a space without a limit", []string{"rxe0", "my rxe", "rxe2"}, cdi.HostOptions{Nodes: withMAD},
			"soft-rxe-eth1:uverbs1", []string{"HCA my rxe cannot be listed as my rxe (use soft-rxe-eth1)"}},
		{"a control character in a limit", []string{"rxe0", "rxe\x7f", "rxe2"},
			cdi.HostOptions{Nodes: withMAD, Limit: args.Wanted{Handles: 1}},
			"rxe0:uverbs0", []string{`rxe\x7f:handles=1" is not printable text`}},
		{"no UTF-8 in a limit", []string{"rxe0", "rxe\xff", "rxe2"},
			cdi.HostOptions{Nodes: withMAD, Limit: args.Wanted{Objects: 1}},
			"rxe0:uverbs0", []string{`rxe\xff:objects=1" is not printable text`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := rdmatest.Snapshot(t, "soft")
			for i, name := range c.ibdevs {
				snap.HCAs[slices.IndexFunc(snap.HCAs,
					func(h rdma.HCA) bool { return h.IBDev == fmt.Sprintf("rxe%d", i) })].IBDev = name
			}
			c.opt.Names, c.opt.Hook = cdi.DefaultNames, hook
			devices, err := cdi.HostDevices(snap, c.opt)
			for _, want := range strings.Fields(c.want) {
				test.True(t, slices.Contains(strings.Fields(describe(devices)), want),
					test.Sprintf("devices %s; want %s among them", describe(devices), want))
			}
			for _, want := range c.reasons {
				test.ErrorContains(t, err, want)
			}
			_, err = cdi.NewSpec(cdi.KindHCA, devices)
			test.NoError(t, err, test.Sprint("the devices make no spec"))
		})
	}
}

// FuzzHostDevices: whatever HCAs and interfaces are called, the devices of a host make a spec.
func FuzzHostDevices(f *testing.F) {
	f.Add("rxe0", "rxe0-mad", "eth0", true)
	f.Add("my rxe", "all", "all", true)
	f.Add("rxe\x7f", "net-eth0", "eth0", false)
	f.Add("soft-rxe-eth0", "rxe\xff", "eth0-mad", true)
	f.Fuzz(func(t *testing.T, one, other, netdev string, limit bool) {
		snap := rdmatest.Snapshot(t, "soft")
		snap.HCAs[0].IBDev, snap.HCAs[1].IBDev = one, other
		snap.HCAs[0].Ports[0].Netdev = netdev
		opt := cdi.HostOptions{Names: cdi.NameStrategies, Nodes: rdma.NodeClasses, Hook: hook}
		if limit {
			opt.Limit = args.Wanted{Handles: 1}
		}
		devices, _ := cdi.HostDevices(snap, opt)
		_, err := cdi.NewSpec(cdi.KindHCA, devices)
		test.NoError(t, err, test.Sprintf("HCAs %q and %q, interface %q", one, other, netdev))
	})
}

// TestSelectNodes: each class on an HCA that has it and on one that does not.
func TestSelectNodes(t *testing.T) {
	for _, c := range []struct {
		machine, ibdev string
		classes        []rdma.NodeClass
		want, bad      string
	}{
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassVerbs}, "uverbs0", ""},
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM}, "uverbs0 rdma_cm", ""},
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassMAD}, "umad0 umad1", ""},
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassSM}, "issm0 issm1", ""},
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM, rdma.ClassMAD, rdma.ClassSM},
			"uverbs0 rdma_cm umad0 umad1 issm0 issm1", ""},
		{"omnipath-hfi1", "hfi1_0", rdma.NodeClasses, "uverbs0 rdma_cm hfi1_0 umad0 issm0", ""},
		{"mlx4-dual-port", "mlx4_0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassPSM}, "", "HCA mlx4_0 has no hfi1 node"},
		{"soft", "rxe0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassSM}, "", "HCA rxe0 has no issm node"},
		{"aws-p5", "rdmap79s0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM}, "uverbs0", ""},
		{"aws-p5", "rdmap79s0", []rdma.NodeClass{rdma.ClassMAD}, "", "EFA and iWARP have none"},
		{"soft-pci", "siw0", []rdma.NodeClass{rdma.ClassVerbs, rdma.ClassCM, rdma.ClassMAD}, "", "HCA siw0 has no umad node"},
		{"smi-multiplane", "smi1", []rdma.NodeClass{rdma.ClassMAD}, "", "HCA smi1 has no uverbs node"},
		{"aws-p5", "rdmap79s0", []rdma.NodeClass{rdma.ClassCM}, "", "the host has no node rdma_cm"},
		{"aws-p5", "rdmap79s0", nil, "", "gives no node"},
	} {
		snap := rdmatest.Snapshot(t, c.machine)
		hcas, err := cdi.Select(snap.HCAs, []string{c.ibdev}, nil)
		must.NoError(t, err)
		nodes, err := cdi.SelectNodes(&hcas[0], snap.RDMACM, c.classes)
		var got []string
		for _, n := range nodes {
			got = append(got, path.Base(n.Path()))
		}
		test.True(t, strings.Join(got, " ") == c.want && (err == nil) == (c.bad == "") &&
			(err == nil || strings.Contains(err.Error(), c.bad)),
			test.Sprintf("%s %s: nodes %q, error %v; want %q, %q", c.ibdev, c.classes, got, err, c.want, c.bad))
	}
}

func TestParseNodeClass(t *testing.T) {
	for _, c := range rdma.NodeClasses {
		got, err := rdma.ParseNodeClass(string(c))
		test.True(t, got == c && err == nil, test.Sprintf("%q: %q, error %v", c, got, err))
		test.Eq(t, c == rdma.ClassMAD || c == rdma.ClassSM, c.Privileged(), test.Sprintf("%q privileged", c))
	}
	_, err := rdma.ParseNodeClass("umad")
	test.EqError(t, err, `unknown nodes "umad": want one of verbs, cm, psm, mad, sm`)
}

// The way from a host to a file that podman reads.
func ExampleNewSpec() {
	host, err := fixture.Load("roce-lag")
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := rdma.Discover(host.OpenFS())
	if err != nil {
		fmt.Println(err)
		return
	}
	devices, err := cdi.HostDevices(snap, cdi.HostOptions{Names: []cdi.NameStrategy{cdi.NameIBDev},
		Nodes: rdma.DefaultClasses, NoAll: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec, err := cdi.NewSpec(cdi.KindHCA, devices)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := cdi.Encode(spec, cdi.YAML)
	fmt.Print(string(data), err)
	// Output:
	// ---
	// cdiVersion: 0.3.0
	// kind: rdma.dev/hca
	// devices:
	//   - name: mlx5_bond_0
	//     containerEdits:
	//       env:
	//         - RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_bond_0
	//       deviceNodes:
	//         - path: /dev/infiniband/uverbs0
	//           permissions: rw
	// containerEdits:
	//   deviceNodes:
	//     - path: /dev/infiniband/rdma_cm
	//       permissions: rw
	// <nil>
}
