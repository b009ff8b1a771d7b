package podnet

import (
	"net"
	"strings"
	"testing"

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

// TestFind: an interface of hardware is found again by the device of its bus and its permanent address, whatever
// the kernel or a pod calls it, and no other interface is taken for it. No machine of the tests has such an interface here.
func TestFind(t *testing.T) {
	const device, permanent, alias = "0000:3b:00.2", "02:00:00:00:00:01", "rdma.dev/claim/1/nic"
	o := identity(nic("ens1f0v0", device, permanent, nil).Attrs())
	other, _ := net.ParseMAC("02:00:00:00:00:02")
	copied := nic("fake", "", permanent, func(a *netlink.LinkAttrs) { a.ParentDevBus, a.Alias = "", alias })
	for name, tc := range map[string]struct {
		link netlink.Link
		is   bool
	}{
		"as it was":                   {nic("ens1f0v0", device, permanent, nil), true},
		"named by the kernel":         {nic("dev0", device, permanent, nil), true},
		"with the name in the pod":    {nic("rdma0", device, permanent, nil), true},
		"with an address of the pod":  {nic("rdma0", device, permanent, func(a *netlink.LinkAttrs) { a.HardwareAddr = other }), true},
		"with our alias alone":        {nic("dev0", device, "02:00:00:00:00:99", func(a *netlink.LinkAttrs) { a.Alias = alias + unfinished }), true},
		"a macvlan with its alias":    {&netlink.Macvlan{LinkAttrs: *copied.Attrs()}, false},
		"another function":            {nic("ens1f0v0", "0000:3b:00.3", permanent, nil), false},
		"another port or representor": {nic("ens1f0v0", device, "02:00:00:00:00:03", nil), false},
		"software of the name":        {nic("ens1f0v0", "", permanent, nil), false},
	} {
		if got := o.find([]netlink.Link{nic("eth0", "0000:00:03.0", "02:00:00:00:00:77", nil), tc.link}, alias, o.is); (got == tc.link) != tc.is {
			t.Errorf("%s: found %v", name, got)
		}
	}
	o.Permanent = ""
	if o.find([]netlink.Link{nic("dev0", device, "02:00:00:00:00:03", nil)}, alias, o.is) != nil {
		t.Error("another port of the function is taken for it")
	}
	if o.find([]netlink.Link{nic("dev0", device, permanent, nil)}, alias, o.is) == nil {
		t.Error("without a permanent address it is not found by its address")
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
		if err := fits(tc.link, tc.pci); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s for %q: %v, want %q", tc.link.Attrs().Name, tc.pci, err, tc.says)
		}
	}
}
