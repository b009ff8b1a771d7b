package capture_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/synth"
)

// TestHost captures every machine from its file system value. What comes out is the machine: a capture has all that a
// description can say, and the errors of unreadable files.
func TestHost(t *testing.T) {
	for _, host := range synth.Machines() {
		t.Run(host.Name, func(t *testing.T) {
			t.Parallel()
			m, err := fixture.Load(host.Name)
			must.NoError(t, err)
			got, err := capture.Host(m.FS(t))
			must.NoError(t, err)
			test.Eq(t, format(t, m.Tree()), format(t, got), test.Sprint("capture differs"))
		})
	}
}

func format(t *testing.T, x *tree.Tree) string {
	t.Helper()
	archive, err := tree.Format("", x)
	must.NoError(t, err)
	return string(archive)
}

func TestHostTrimsGIDTables(t *testing.T) {
	x := &tree.Tree{}
	port := "sys/devices/virtual/infiniband/rxe0/ports/1"
	for _, e := range []tree.Entry{
		{Path: "sys/class/infiniband/rxe0", Kind: tree.Link, Target: "../../devices/virtual/infiniband/rxe0"},
		{Path: port + "/gids/0", Data: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{Path: port + "/gids/1", Data: "fe80:0000:0000:0000:0000:0000:0000:0001\n"},
		{Path: port + "/gids/2", Data: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{Path: port + "/gids/3", Data: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{Path: port + "/gids/4", Data: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{Path: port + "/gid_attrs/types/3", Kind: tree.Broken, Errno: syscall.EINVAL},
		{Path: port + "/gid_attrs/types/4", Kind: tree.Broken, Errno: syscall.EINVAL},
		{Path: port + "/cm_rx_msgs/req", Data: "0\n"},
	} {
		must.NoError(t, x.Write(e))
	}
	m, err := fixture.Parse("trim", []byte(format(t, x)))
	must.NoError(t, err)
	got, err := capture.Host(m.FS(t))
	must.NoError(t, err)
	for name, want := range map[string]bool{
		"/gids/3": true, "/gids/4": false, "/gid_attrs/types/3": true, "/gid_attrs/types/4": false, "/cm_rx_msgs": false,
	} {
		if _, ok := got.Lookup(port + name); ok != want {
			t.Errorf("capture has %s: %v, want %v", name, ok, want)
		}
	}
}

// TestScrub checks on a whole machine that no device part of an address is left, and that addresses which belong
// together still do.
func TestScrub(t *testing.T) {
	m, err := fixture.Load("roce-sriov")
	must.NoError(t, err)
	got := scrub(t, m.Tree(), capture.Names{})
	text := format(t, got)
	for _, secret := range []string{"25:10:00", "0025:1000", "fe25:1000", "0a01:000a"} {
		must.StrContains(t, format(t, m.Tree()), secret, must.Sprint("the machine has no"))
		test.StrNotContains(t, text, secret, test.Sprint("is still there"))
	}
	mac := read(t, got, "sys/class/net/ens1f0np0/address")
	guid := read(t, got, "sys/class/infiniband/mlx5_0/node_guid")
	gid := read(t, got, "sys/class/infiniband/mlx5_0/ports/1/gids/0")
	if !strings.HasPrefix(mac, "a0:88:c2:") || !strings.HasPrefix(guid, "a088:c203:00") {
		t.Errorf("vendor part is lost: MAC %q, GUID %q", mac, guid)
	}
	end := strings.ReplaceAll(mac, ":", "")[6:]
	for _, s := range []string{guid, gid} {
		test.StrHasSuffix(t, end, strings.ReplaceAll(s, ":", ""),
			test.Sprintf("%q no longer belongs to the MAC %q", s, mac))
	}
	test.Eq(t, "0000:0000:0000:0000", read(t, got, "sys/class/infiniband/mlx5_9/node_guid"),
		test.Sprint("GUID 0 became"))
	again := scrub(t, got, capture.Names{})
	test.Eq(t, len(text), len(format(t, again)), test.Sprint("scrubbing changes the length of the archive"))
}

func read(t *testing.T, x *tree.Tree, name string) string {
	t.Helper()
	data, err := x.ReadFile(name)
	must.NoError(t, err)
	return strings.TrimSpace(data)
}

func ExampleHost() {
	m, err := fixture.Load("roce-lag")
	if err != nil {
		fmt.Println(err)
		return
	}
	captured, err := capture.Host(m.OpenFS()) // on a host: os.DirFS("/sys")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, hca := range captured.Children("sys/class/infiniband") {
		fmt.Println(hca.Path)
	}
	// Output: sys/class/infiniband/mlx5_bond_0
}

// TestScrubText: a text about the host has the addresses of the scrubbed tree, and no name or address of the site. An
// address that the tree lacks keeps its vendor's part.
func TestScrubText(t *testing.T) {
	m, err := fixture.Load("roce-sriov")
	must.NoError(t, err)
	scrubbed := scrub(t, m.Tree(), capture.Names{})
	guid := func(x *tree.Tree) string { return read(t, x, "sys/class/infiniband/mlx5_0/node_guid") }
	bare := strings.NewReplacer(":", "")
	s := capture.NewScrubber(m.Tree(), capture.Names{Hosts: []string{"node17.example.com"}}, testKey)
	for in, want := range map[string]string{
		"GUID " + guid(m.Tree()) + ", MAC 02:42:ac:11:00:02": "GUID " + guid(scrubbed) + ", MAC 02:42:ac:e6:0e:fc",
		"guid-" + bare.Replace(guid(m.Tree())):               "guid-" + bare.Replace(guid(scrubbed)),
		"Node17 node17 node17.example.com: node170":          "host-2 host-2 host-1: host-20",
		"at 10.1.2.3, fe80::1":                               "at 10.239.112.110, fe80::cf:74ad",
		"and [2001:db8::7]:443":                              "and [2001:db8:ddfc:82a:2848:f84:d5de:2672]:443",
		"/home/alice/x 127.0.0.1 v1.7.12 12:30:00":           "/home/(user)/x 127.0.0.1 v1.7.12 12:30:00",
		"0000:3b:00.0 and pci-0000-3b-00-0, firmware 28.39.1002 of 15b3:1021": "0000:3b:00.0 and pci-0000-3b-00-0, " +
			"firmware 28.39.1002 of 15b3:1021",
	} {
		test.Eq(t, want, s.Text(in), test.Sprintf("%q becomes", in))
	}
}
