package pods

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestFindGID: the GID of an address is found by its value and type, at whichever port. Link-local GIDs, unused entries
// and RoCE v1 are none.
func TestFindGID(t *testing.T) {
	sys := fstest.MapFS{}
	entry := func(port, index int, gid, kind string) {
		dir := fmt.Sprintf("class/infiniband/mlx5_0/ports/%d/", port)
		sys[fmt.Sprintf("%sgids/%d", dir, index)] = &fstest.MapFile{Data: []byte(gid + "\n")}
		sys[fmt.Sprintf("%sgid_attrs/types/%d", dir, index)] = &fstest.MapFile{Data: []byte(kind + "\n")}
	}
	entry(1, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2")
	entry(1, 1, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2")
	entry(1, 2, "0000:0000:0000:0000:0000:ffff:0a4f:0101", "IB/RoCE v1")
	entry(1, 3, "0000:0000:0000:0000:0000:ffff:0a4f:0101", "RoCE v2")
	entry(2, 0, "0000:0000:0000:0000:0000:ffff:0a4f:0201", "RoCE v2")
	h := &rdma.HCA{IBDev: "mlx5_0", Ports: []rdma.Port{{Number: 1}, {Number: 2}}}
	for address, want := range map[string]string{
		"10.79.1.1": "3 true", "10.79.2.1": "0 true", "10.79.3.1": "0 false", "0.0.0.0": "0 false",
	} {
		index, found, err := findGID(sys, h, netip.MustParseAddr(address))
		got := fmt.Sprint(index, found)
		test.True(t, got == want && err == nil, test.Sprintf("%s: %s %v, want %s", address, got, err, want))
	}
}

func TestHasVariable(t *testing.T) {
	c := nri.Container{Env: []string{"RDMA_GID_INDEX_A_1=3", "EMPTY="}}
	for name, want := range map[string]bool{
		"RDMA_GID_INDEX_A_1": true, "RDMA_GID_INDEX_A": false, "EMPTY": true, "": false,
	} {
		test.Eq(t, want, hasVariable(c, name), test.Sprintf("%q", name))
	}
}
