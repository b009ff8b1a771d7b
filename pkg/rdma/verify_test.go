package rdma_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestVerifyUnchanged: a snapshot holds on the host that it was taken of.
func TestVerifyUnchanged(t *testing.T) {
	for _, name := range fixture.Names() {
		sys := load(t, name).FS(t)
		snap, err := rdma.Discover(sys)
		must.NoError(t, err)
		for i := range snap.HCAs {
			test.NoError(t, rdma.Verify(sys, &snap.HCAs[i]), test.Sprintf("%s %s", name, snap.HCAs[i].IBDev))
		}
	}
}

// TestVerifyMoved: the kernel gave the names of a snapshot to something else.
func TestVerifyMoved(t *testing.T) {
	for _, c := range []struct {
		name, machine, ibdev string
		change               []string
		want                 string
	}{
		{"uverbs number went to another HCA", "roce-sriov", "mlx5_3",
			[]string{"uverbs3/ibdev --\nmlx5_3\n", "uverbs3/ibdev --\nmlx5_4\n"},
			"ibdev of node uverbs3 is mlx5_4 now, and was mlx5_3"},
		{"node has another number", "roce-sriov", "mlx5_3",
			[]string{"uverbs3/dev --\n231:195\n", "uverbs3/dev --\n231:199\n"},
			"dev of node uverbs3 is 231:199 now, and was 231:195"},
		{"node is gone", "roce-sriov", "mlx5_3",
			[]string{"-- sys/class/infiniband_verbs/uverbs3 -> ",
				"-- sys/class/infiniband_verbs/uverbs3x -> "}, "node uverbs3: "},
		{"HCA is gone", "roce-lag", "mlx5_bond_0",
			[]string{"sys/class/infiniband/mlx5_bond_0 -> ", "sys/class/infiniband/mlx5_bond_0x -> "}, "HCA mlx5_bond_0: "},
		{"HCA sits on another function", "roce-lag", "mlx5_bond_0",
			[]string{"0000:3b:00.0", "0000:3b:01.0"}, "sits on \"0000:3b:01.0\" now, and sat on 0000:3b:00.0"},
		{"HCA is another subfunction", "mlx5-sf", "mlx5_1",
			[]string{"mlx5_core.sf.4/sfnum --\n88\n", "mlx5_core.sf.4/sfnum --\n77\n"}, "subfunction 77 now, and was 88"},
		{"HCA is no subfunction any more", "mlx5-sf", "mlx5_1",
			[]string{"mlx5_core.sf.4/sfnum --\n88\n", "mlx5_core.sf.4/sfnum !ENODEV --\n"}, "subfunction"},
		{"soft-RoCE was made again elsewhere", "soft", "rxe0",
			[]string{"rxe0/parent --\neth0\n", "rxe0/parent --\neth1\n"}, "sits on interface \"eth1\" now, and sat on eth0"},
		{"another card in the slot", "roce-lag", "mlx5_bond_0",
			[]string{"node_guid --\na088:c203:0026:2000\n", "node_guid --\na088:c203:0026:2111\n"},
			"has node GUID a088:c203:0026:2111 now, and had a088:c203:0026:2000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := hca(t, discover(t, c.machine), c.ibdev)
			err := rdma.Verify(variantFS(t, c.machine, c.change...), before)
			test.True(t, errors.Is(err, rdma.ErrChanged) && strings.Contains(err.Error(), c.want),
				test.Sprintf("error %v; want ErrChanged with %q", err, c.want))
		})
	}
}

// TestVerifyWithoutUverbs: an HCA without a node can still be looked for.
func TestVerifyWithoutUverbs(t *testing.T) {
	sys := load(t, "misbehaving").FS(t)
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	test.NoError(t, rdma.Verify(sys, hca(t, snap, "mlx5_3")))
}
