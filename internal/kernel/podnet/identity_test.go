package podnet

import (
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/vishvananda/netlink"
)

// nic is what the kernel says of an interface of hardware.
func nic(name, device, permanent string, change func(*netlink.LinkAttrs)) netlink.Link {
	a := netlink.LinkAttrs{Name: name, ParentDev: device, ParentDevBus: "pci"}
	a.PermHWAddr, _ = net.ParseMAC(permanent)
	a.HardwareAddr = a.PermHWAddr
	if change != nil {
		change(&a)
	}
	return &netlink.Device{LinkAttrs: a}
}

// TestFind: an interface of hardware is found again by the device of its bus and its permanent address, whatever the
// kernel or a pod calls it, and no other interface is taken for it. No machine of the tests has such an interface here.
func TestFind(t *testing.T) {
	const device, permanent, alias = "0000:3b:00.2", "02:00:00:00:00:01", "rdma.dev/claim/1/nic"
	o := identity(nic("ens1f0v0", device, permanent, nil))
	other, _ := net.ParseMAC("02:00:00:00:00:02")
	all := *nic("ens1f0v0", device, permanent, func(a *netlink.LinkAttrs) { a.Alias = alias }).Attrs()
	for name, tc := range map[string]struct {
		link netlink.Link
		is   bool
	}{
		"as it was":                {nic("ens1f0v0", device, permanent, nil), true},
		"named by the kernel":      {nic("dev0", device, permanent, nil), true},
		"with the name in the pod": {nic("rdma0", device, permanent, nil), true},
		"with an address of the pod": {nic("rdma0", device, permanent,
			func(a *netlink.LinkAttrs) { a.HardwareAddr = other }), true},
		"with our alias alone": {nic("dev0", device, "02:00:00:00:00:99",
			func(a *netlink.LinkAttrs) { a.Alias = alias }), false},
		"a macvlan with all of it": {&netlink.Macvlan{LinkAttrs: all}, false},
		"a veth with all of it":    {&netlink.Veth{LinkAttrs: all}, false},
		"a kind of the future":     {&netlink.GenericLink{LinkAttrs: all, LinkType: "wwan"}, false},
		"another function":         {nic("ens1f0v0", "0000:3b:00.3", permanent, nil), false},
		"another bus": {nic("ens1f0v0", device, permanent,
			func(a *netlink.LinkAttrs) { a.ParentDevBus = "auxiliary" }), false},
		"another port or representor": {nic("ens1f0v0", device, "02:00:00:00:00:03", nil), false},
		"software of the name":        {nic("ens1f0v0", "", permanent, nil), false},
	} {
		if got := o.find([]netlink.Link{nic("eth0", "0000:00:03.0", "02:00:00:00:00:77", nil), tc.link},
			-1); (got == tc.link) != tc.is {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// TestFindWithoutPermanent: the hardware address of some VFs is made up by their driver. The device alone says which
// one it is then, as far as there is one; that a pod has changed the address does not matter.
func TestFindWithoutPermanent(t *testing.T) {
	const device = "0000:3b:00.2"
	mac := func(s string) func(*netlink.LinkAttrs) {
		return func(a *netlink.LinkAttrs) { a.HardwareAddr, _ = net.ParseMAC(s) }
	}
	it := nic("ens1f0v0", device, "", mac("02:00:00:00:00:01"))
	o := identity(it)
	changed, sibling := nic("dev0", device, "", mac("02:00:00:00:00:66")),
		nic("ens1f0v1", device, "", mac("02:00:00:00:00:02"))
	sibling.Attrs().Index = 2
	for name, tc := range map[string]struct {
		links []netlink.Link
		want  netlink.Link
	}{
		"as it was":            {[]netlink.Link{sibling, it}, it},
		"with another address": {[]netlink.Link{changed}, changed},
		"not to be said":       {[]netlink.Link{changed, sibling}, nil},
		"with a permanent one": {[]netlink.Link{nic("dev0", device, "02:00:00:00:00:01", nil)}, nil},
	} {
		if got := o.find(tc.links, -1); got != tc.want {
			t.Errorf("%s: found %v", name, got)
		}
	}
	test.ErrorIs(t, checkIdentity(it, []netlink.Link{it, sibling}), errSiblings)
	test.NoError(t, checkIdentity(it, []netlink.Link{it, nic("ens2", "0000:4b:00.0", "", nil)}))
}

// TestVFs: the number of virtual functions is read where the kernel has it for any number of them.
func TestVFs(t *testing.T) {
	const file = "class/net/ens1/device/sriov_numvfs"
	for text, want := range map[string]int{"0\n": 0, "256\n": 256} {
		n, err := numVFs(fstest.MapFS{file: {Data: []byte(text)}}, "ens1")
		if n != want || err != nil {
			t.Errorf("%d virtual functions, %v, want %d", n, err, want)
		}
	}
	if n, err := numVFs(fstest.MapFS{}, "ens1"); n != 0 || err != nil {
		t.Errorf("without the file: %d, %v", n, err)
	}
	if _, err := numVFs(fstest.MapFS{file: {}}, "ens1"); err == nil {
		t.Error("an empty file is a number")
	}
}

// TestFits: the interface has to be of the HCA's own function, as far as the kernel tells.
func TestFits(t *testing.T) {
	vf := nic("ens1f0v0", "0000:3b:00.2", "02:00:00:00:00:01", nil)
	virtio := nic("eth1", "virtio3", "02:00:00:00:00:01", func(a *netlink.LinkAttrs) { a.ParentDevBus = "virtio" })
	for _, tc := range []struct {
		link      netlink.Link
		pci, says string
	}{
		{vf, "0000:3b:00.2", ""},
		{vf, "", ""},
		{vf, "0000:3b:00.0", "it is of PCI function 0000:3b:00.2, and the HCA is 0000:3b:00.0"},
		{virtio, "0000:00:07.0", ""},
	} {
		if err := fits(tc.link, tc.pci); (err == nil) != (tc.says == "") || err != nil &&
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s for %q: %v, want %q", tc.link.Attrs().Name, tc.pci, err, tc.says)
		}
	}
}

// TestBondOf: a bond belongs to an HCA of hardware if one of its slaves is of the HCA's function.
func TestBondOf(t *testing.T) {
	slave := func(name, device string) netlink.Link {
		return nic(name, device, "", func(a *netlink.LinkAttrs) { a.MasterIndex = 7 })
	}
	const one, two, third = "0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0"
	for name, tc := range map[string]struct {
		links []netlink.Link
		pci   string
		says  string
	}{
		"first function":  {[]netlink.Link{slave("a", one), slave("b", two)}, one, ""},
		"second function": {[]netlink.Link{slave("a", one), slave("b", two)}, two, ""},
		"another function": {
			[]netlink.Link{slave("a", one), nic("c", third, "", nil)},
			third,
			"it is a bond of a and others",
		},
		"virtual slaves": {[]netlink.Link{&netlink.Veth{LinkAttrs: netlink.LinkAttrs{MasterIndex: 7}}}, one, ""},
	} {
		err := isBondOf(tc.links, 7, tc.pci)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
}
