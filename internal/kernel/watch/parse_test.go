package watch

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	pf      = "/devices/pci0000:15/0000:15:01.0/0000:19:00.0"
	virtual = "/devices/virtual"
)

// known is what the last picture of the tests' host was made of.
var known = &Interest{Netdevs: rdma.NamesOf("eth0", "bond0"), Functions: rdma.NamesOf("0000:19:00.0"), HCAs: true}

func TestUevents(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"HCA":             {rxeAdd, "HCAs rxe0"},
		"HCA on hardware": {uevent("remove", pf+"/infiniband/mlx5_0", "infiniband"), "HCAs mlx5_0"},
		"HCA renamed": {uevent("move", pf+"/infiniband/ibp25s0", "infiniband",
			"DEVPATH_OLD="+pf+"/infiniband/mlx5_0"), "HCAs ibp25s0 mlx5_0"},
		"uverbs": {uevent("remove", pf+"/infiniband_verbs/uverbs0", "infiniband_verbs", "MAJOR=231",
			"DEVNAME=infiniband/uverbs0"), "nodes uverbs0"},
		"umad":       {uevent("add", virtual+"/infiniband_mad/umad0", "infiniband_mad"), "nodes umad0"},
		"rdma_cm":    {uevent("add", virtual+"/misc/rdma_cm", "misc"), "host"},
		"other misc": {uevent("add", virtual+"/misc/fuse", "misc"), "nothing"},
		"veth":       {uevent("add", virtual+"/net/veth12", "net"), "nothing"},
		"veth renamed": {uevent("move", virtual+"/net/cali7", "net", "DEVPATH_OLD="+virtual+"/net/veth12"),
			"nothing"},
		"queue of a veth": {uevent("add", virtual+"/net/veth12/queues/rx-0", "queues"), "nothing"},
		"known bond":      {uevent("remove", virtual+"/net/bond0", "net"), "interfaces bond0"},
		"known bond renamed": {uevent("move", virtual+"/net/bond1", "net", "DEVPATH_OLD="+virtual+"/net/bond0"),
			"interfaces bond0 bond1"},
		"interface on hardware": {uevent("add", pf+"/net/enp25s0", "net"), "interfaces enp25s0"},
		"its queue":             {uevent("add", pf+"/net/enp25s0/queues/tx-0", "queues"), "nothing"},
		"known function":        {uevent("unbind", pf, "pci", "PCI_CLASS=120000"), "PCI functions 0000:19:00.0"},
		"network function": {uevent("add", "/devices/pci0000:15/0000:15:01.0/0000:1a:00.0", "pci", "PCI_CLASS=20000",
			"PCI_ID=15B3:1021"), "PCI functions 0000:1a:00.0"},
		"InfiniBand function": {uevent("add", "/devices/pci0000:15/0000:15:01.0/0000:1a:00.0", "pci", "PCI_CLASS=C0600"),
			"PCI functions 0000:1a:00.0"},
		"GPU": {uevent("add", "/devices/pci0000:15/0000:15:02.0/0000:1b:00.0", "pci", "PCI_CLASS=30200"),
			"nothing"},
		"host bridge":            {uevent("add", "/devices/pci0000:15/0000:15:02.0", "pci", "PCI_CLASS=60400"), "nothing"},
		"subfunction":            {uevent("add", pf+"/mlx5_core.sf.4", "auxiliary"), "PCI functions 0000:19:00.0"},
		"half of a driver":       {uevent("unbind", pf+"/mlx5_core.rdma.0", "auxiliary"), "PCI functions 0000:19:00.0"},
		"of another function":    {uevent("add", "/devices/pci0000:00/0000:00:1f.3/snd_sof.hda.0", "auxiliary"), "nothing"},
		"auxiliary without PCI":  {uevent("add", virtual+"/test.aux.0", "auxiliary"), "nothing"},
		"disk":                   {uevent("change", "/devices/pci0000:00/0000:00:02.0/block/sda", "block"), "nothing"},
		"no subsystem":           {"add@/devices/x\x00ACTION=add\x00", "nothing"},
		"udev":                   {"libudev\x00\xfe\xed\xca\xfe", "no uevent"},
		"empty":                  {"", "no uevent"},
		"no zero":                {"add@/devices/x", "no uevent"},
		"relative path":          {"add@devices\x00", "no uevent"},
		"no action":              {"@/devices\x00", "no uevent"},
		"subsystem at end":       {"change@/d\x00SUBSYSTEM=infiniband", "HCAs d"},
		"a class of short names": {uevent("add", virtual+"/net/e", "net"), "nothing"},
	} {
		got := "no uevent"
		if u, ok := ParseUevent([]byte(c.message)); ok {
			got = u.changes(known).String()
		}
		test.Eq(t, c.want, got, test.Sprintf("%s", name))
	}
}

// TestLinks: what a sequence of datagrams says, each after those before it.
func TestLinks(t *testing.T) {
	l := newLinks()
	dump := func(index int, name string, state uint32) string {
		return linkMessage(unix.RTM_NEWLINK, unix.NLM_F_MULTI, index, name, state)
	}
	for _, step := range []struct{ what, datagram, want string }{
		{"the dump", dump(1, "lo", up) + dump(2, "eth0", up) + dump(3, "veth1", up), "nothing"},
		{"its end", message(unix.NLMSG_DONE, unix.NLM_F_MULTI, make([]byte, 4)), "nothing"},
		{"a veth goes down", newLink(3, "veth1", down), "nothing"},
		{"a veth comes", newLink(4, "veth2", up), "nothing"},
		{"a link says nothing new", newLink(2, "eth0", up), "nothing"},
		{"a flag of no interest", newLink(2, "eth0", up|unix.IFF_PROMISC), "nothing"},
		{"a link goes down", newLink(2, "eth0", down), "interfaces eth0"},
		{"two messages", newLink(2, "eth0", up) + newLink(5, "bond0", up), "interfaces bond0 eth0"},
		{"another hardware address", linkMessage(unix.RTM_NEWLINK, 0, 2, "eth0", up,
			attribute(unix.IFLA_ADDRESS, "\x02\x00\x00\x00\x00\x01")), "interfaces eth0"},
		{"operstate", linkMessage(unix.RTM_NEWLINK, 0, 2, "eth0", up,
			attribute(unix.IFLA_ADDRESS, "\x02\x00\x00\x00\x00\x01"),
			attribute(unix.IFLA_OPERSTATE, "\x06")), "interfaces eth0"},
		{"a port joins a bridge", linkMessage(unix.RTM_NEWLINK, 0, 2, "eth0", up,
			attribute(unix.IFLA_MASTER, "\x07\x00\x00\x00")), "interfaces eth0"},
		{"a message of the bridge", bridgeMessage(2, "eth0"), "nothing"},
		{"an address", addressMessage(unix.RTM_NEWADDR, 2, "\x0a\x00\x00\x01", 0x80), "interfaces eth0"},
		{"the same, which lives longer", addressMessage(unix.RTM_NEWADDR, 2, "\x0a\x00\x00\x01", 0x80), "nothing"},
		{"the same, no duplicate", addressMessage(unix.RTM_NEWADDR, 2, "\x0a\x00\x00\x01", 0), "interfaces eth0"},
		{"it goes", addressMessage(unix.RTM_DELADDR, 2, "\x0a\x00\x00\x01", 0), "interfaces eth0"},
		{"it comes back", addressMessage(unix.RTM_NEWADDR, 2, "\x0a\x00\x00\x01", 0), "interfaces eth0"},
		{"an address of a veth", addressMessage(unix.RTM_NEWADDR, 4, "\x0a\x00\x00\x02", 0), "nothing"},
		{"an address of an unknown link", addressMessage(unix.RTM_NEWADDR, 99, "\x0a\x00\x00\x02", 0), "nothing"},
		{"a known link is renamed", newLink(2, "lan0", up), "interfaces eth0 lan0"},
		{"it is another one now", newLink(2, "lan0", down), "nothing"},
		{"a veth gets a known name", newLink(4, "eth0", up), "interfaces eth0 veth2"},
		{"it goes", linkMessage(unix.RTM_DELLINK, 0, 4, "eth0", down), "interfaces eth0"},
		{"a member joins a bond", linkMessage(unix.RTM_NEWLINK, 0, 9, "eth9", up,
			attribute(unix.IFLA_MASTER, "\x05\x00\x00\x00")), "interfaces bond0 eth9"},
		{"it loses its link", linkMessage(unix.RTM_NEWLINK, 0, 9, "eth9", down,
			attribute(unix.IFLA_MASTER, "\x05\x00\x00\x00")), "interfaces bond0 eth9"},
		{"it leaves", newLink(9, "eth9", down), "interfaces bond0 eth9"},
		{"a message that is too short", message(unix.RTM_NEWLINK, 0, []byte{0, 0, 0, 0}), "nothing"},
		{"an address that is too short", message(unix.RTM_NEWADDR, 0, []byte{0, 0, 0, 0}), "nothing"},
		{"a datagram that is cut off", newLink(2, "eth0", up)[:20], "everything"},
	} {
		test.Eq(t, step.want, l.changes([]byte(step.datagram), known).String(), test.Sprintf("%s", step.what))
	}
}

func bridgeMessage(index byte, name string) string {
	info := make([]byte, unix.SizeofIfInfomsg)
	info[0], info[4] = unix.AF_BRIDGE, index
	return message(unix.RTM_DELLINK, 0, info, attribute(unix.IFLA_IFNAME, name+"\x00"))
}

func TestRDMAMessages(t *testing.T) {
	device := attribute(1, "\x03\x00\x00\x00") + attribute(rdmaDevName, "mlx5_0\x00")
	for name, c := range map[string]struct{ datagram, want string }{
		"register":   {rdmaMessage(0, device), "HCAs mlx5_0"},
		"unregister": {rdmaMessage(1, device), "HCAs mlx5_0"},
		"netdev attached": {rdmaMessage(2, device, attribute(3, "\x01\x00\x00\x00"), attribute(50, "\x07\x00\x00\x00"),
			attribute(rdmaNdevName, "bond0\x00")), "HCAs mlx5_0, interfaces bond0"},
		"another message": {message(5<<10|1, 0, nil, device), "nothing"},
		"cut off":         {rdmaMessage(0, device)[:10] + "\xff\xff\xff\xff\xff\xff\xff\xff", "everything"},
		"empty":           {"", "nothing"},
	} {
		test.Eq(t, c.want, rdmaChanges([]byte(c.datagram), nil).String(), test.Sprintf("%s", name))
	}
}

func TestInterestIn(t *testing.T) {
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{
		{PF: "0000:3b:00.0", PCI: &rdma.PCIFunction{Address: "0000:3b:00.2"}, Ports: []rdma.Port{{Netdev: "eth1"}, {}}},
		{Ports: []rdma.Port{{Netdev: "eth0"}}},
	}}
	i := InterestIn(snap)
	if got, want := strings.Join(append(i.Netdevs.Sorted(), i.Functions.Sorted()...), " "),
		"eth0 eth1 0000:3b:00.0 0000:3b:00.2"; got != want || !i.HCAs {
		t.Errorf("interest in %s, HCAs %v; want %s", got, i.HCAs, want)
	}
	test.False(t, InterestIn(&rdma.Snapshot{}).HCAs, test.Sprint("a host without HCAs has some"))
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte(rxeAdd))
	f.Add([]byte(uevent("move", pf+"/net/x", "net", "DEVPATH_OLD="+pf+"/net/y", "PCI_CLASS=20000")))
	f.Add([]byte("libudev\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		u, ok := ParseUevent(message)
		if ok && (u.Action == "" || !strings.HasPrefix(u.DevPath, "/")) {
			t.Errorf("%q: %+v", message, u)
		}
		u.changes(known)
	})
}

func FuzzNetlink(f *testing.F) {
	f.Add([]byte(newLink(2, "eth0", up) + newLink(3, "veth1", up)))
	f.Add([]byte(addressMessage(unix.RTM_NEWADDR, 2, "\x0a\x00\x00\x01", 0)))
	f.Add([]byte(rdmaMessage(0, attribute(rdmaDevName, "mlx5_0\x00"))))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		l := newLinks()
		first := l.changes(datagram, known)
		if again := l.changes(datagram, known); !first.All && len(again.Netdevs) > len(first.Netdevs)+len(l.byIndex) {
			t.Errorf("%q: %s, and then %s", datagram, first, again)
		}
		rdmaChanges(datagram, nil)
	})
}
