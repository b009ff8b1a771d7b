package rdma_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func ip(g rdma.GID) netip.Addr { return netip.AddrFrom16(g.Address).Unmap() }

// TestReadGIDs: the entries in use, with their indices, of each kind of port.
func TestReadGIDs(t *testing.T) {
	for _, tt := range []struct {
		machine, ibdev string
		want           []string
	}{
		{"roce-sriov", "mlx5_0", []string{
			"0 fe80::a288:c2ff:fe25:1000 IB/RoCE v1 ens1f0np0 a0:88:c2:25:10:00",
			"1 fe80::a288:c2ff:fe25:1000 RoCE v2 ens1f0np0 a0:88:c2:25:10:00",
			"2 10.1.0.10 IB/RoCE v1 ens1f0np0 ", "3 10.1.0.10 RoCE v2 ens1f0np0 ",
		}},
		{"dgx-h100-ib", "mlx5_0", []string{"0 fe80::a088:c203:3f:1800 IB/RoCE v1  "}},
		{"roce-sriov", "mlx5_99", nil},
	} {
		m, err := fixture.Load(tt.machine)
		must.NoError(t, err)
		gids, err := rdma.ReadGIDs(m.OpenFS(), tt.ibdev, 1)
		must.NoError(t, err)
		var got []string
		for _, g := range gids {
			got = append(got, fmt.Sprintf("%d %s %s %s %s", g.Index, ip(g), g.Type, g.Netdev, g.HardwareAddress()))
		}
		test.Eq(t, tt.want, got, test.Sprintf("%s, %s", tt.machine, tt.ibdev))
	}
}

// TestReadGIDsBroken: what is no GID costs only itself, and is said.
func TestReadGIDsBroken(t *testing.T) {
	dir := "class/infiniband/a/ports/1/gids/"
	sys := fstest.MapFS{
		dir + "10": {Data: []byte("0000:0000:0000:0000:0000:ffff:0a00:0001\n")}, dir + "2": {Data: []byte("odd\n")},
		dir + "9": {Data: []byte("2001:0db8:0000:0000:0000:0000:0000:0001\n")}, dir + "x": {Data: []byte("odd\n")},
	}
	gids, err := rdma.ReadGIDs(sys, "a", 1)
	test.True(t, len(gids) == 2 && gids[0].Index == 9 && gids[1].Index == 10 &&
		ip(gids[1]).String() == "10.0.0.1", test.Sprintf("GIDs %v", gids))
	test.ErrorContains(t, err, `gids/2: parse GID "odd"`)
}

func FuzzParseGID(f *testing.F) {
	for _, s := range []string{"fe80:0000:0000:0000:a288:c2ff:fe25:1000",
		"0000:0000:0000:0000:0000:ffff:0a01:000a", "", "::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, err := rdma.ParseGID(s)
		if err != nil {
			return
		}
		test.Eq(t, strings.ToLower(strings.ReplaceAll(s, ":", "")), fmt.Sprintf("%x", address[:]),
			test.Sprintf("ParseGID(%q) = %x", s, address))
	})
}

// FuzzHasAssignedGID: whatever the files of a port contain, a GID is assigned only if it is an address that is neither
// zero nor link-local, but of IPv4.
func FuzzHasAssignedGID(f *testing.F) {
	f.Add("0000:0000:0000:0000:0000:ffff:0a00:0001\n", "RoCE v2\n")
	f.Add("fe80:0000:0000:0000:0000:0000:0000:0001\n", "RoCE v2\n")
	f.Add("0000:0000:0000:0000:0000:0000:0000:0000\n", "IB/RoCE v1\n")
	f.Add("::%eth0", "")
	f.Fuzz(func(t *testing.T, gid, kind string) {
		const port = "class/infiniband/rxe0/ports/1"
		sys := fstest.MapFS{
			port + "/gids/0":            &fstest.MapFile{Data: []byte(gid)},
			port + "/gids/x":            &fstest.MapFile{Data: []byte(gid)},
			port + "/gid_attrs/types/0": &fstest.MapFile{Data: []byte(kind)},
		}
		has, err := rdma.HasAssignedGID(sys, "rxe0", 1)
		must.NoError(t, err)
		address, err := netip.ParseAddr(strings.TrimSpace(gid))
		if has && (err != nil || address.IsUnspecified() || address.IsLinkLocalUnicast() && !address.Is4In6()) {
			t.Errorf("GID %q of type %q is taken for an address", gid, kind)
		}
	})
}

// TestFindGID: a search reads no entry behind the one that it finds.
func TestFindGID(t *testing.T) {
	sys := fstest.MapFS{}
	for i := range 3 {
		sys[fmt.Sprintf("class/infiniband/a/ports/1/gids/%d", i)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "0000:0000:0000:0000:0000:ffff:0a4d:010%d\n", i),
		}
	}
	sys["class/infiniband/a/ports/1/gids/2"].Data = []byte("no GID\n")
	for last, want := range []bool{true, true, false} {
		gid, ok, err := rdma.FindGID(sys, "a", 1, func(g rdma.GID) bool { return g.Address[15] == byte(last) })
		test.True(t, ok == want && (!ok || gid.Index == last) && ok != (err != nil),
			test.Sprintf("find entry %d: %v, %t, %v", last, gid, ok, err))
	}
}
