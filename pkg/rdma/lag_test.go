package rdma_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestLAG: what the HCA of a bond carries now, what it carries while all members have a link, and what holds it down.
// The second figure stays while a member is away.
func TestLAG(t *testing.T) {
	const (
		first, second = "class/net/ens1f0np0/speed", "class/net/ens1f1np1/speed"
		bond, mode    = "class/net/bond0/speed", "class/net/bond0/bonding/mode"
		rate          = "class/infiniband/mlx5_bond_0/ports/1/rate"
		slot          = "devices/pci0000:3a/0000:3a:00.0"
		card          = slot + "/0000:3b:00"
	)
	for _, c := range []struct {
		name, want string
		files      []string // names and contents
	}{
		{"two members", "now 200000, configured 200000", nil},
		{"the second is away", "now 100000, configured 200000, slow ens1f1np1",
			[]string{second, "-1", bond, "100000"}},
		{"the first is away, and the rate of its port means nothing", "now 100000, configured 200000, slow ens1f0np0",
			[]string{first, "-1", bond, "100000", rate, "40 Gb/sec (4X QDR)"}},
		{"the second is slower, and LACP left it out", "now 100000, configured 200000, slow ens1f1np1",
			[]string{second, "25000", bond, "100000"}},
		{"the second is a spare", "now 100000, configured 100000", []string{mode, "active-backup 1", bond, "100000"}},
		{"the spare is away", "now 100000, configured 100000",
			[]string{mode, "active-backup 1", bond, "100000", second, "-1"}},
		{"the spare is faster", "now 25000, configured 25000",
			[]string{mode, "active-backup 1", first, "25000", bond, "25000"}},
		{"nothing is known", "now 0, configured 0", []string{first, "-1", second, "garbage", bond, "-1"}},
		{"PCIe 3 carries less", "now 200000, configured 126030, PCIe 126030",
			[]string{card + ".0/max_link_speed", "8.0 GT/s PCIe"}},
		{"the slot carries less", "now 200000, configured 63015, PCIe 63015",
			[]string{slot + "/max_link_width", "4"}},
		{"the slot is emulated", "now 200000, configured 200000",
			[]string{slot + "/max_link_speed", "2.5 GT/s PCIe", slot + "/max_link_width", "1",
				card + ".0/current_link_speed", "16.0 GT/s PCIe", card + ".0/current_link_width", "16"}},
		{"PCIe is not known", "now 200000, configured 200000", []string{card + ".0/max_link_width", "0"}},
		{"the second function has an HCA", "now 100000, configured 100000",
			[]string{card + ".1/infiniband/mlx5_1/node_type", "1: CA"}},
		{"a member of another card", "now 100000, configured 100000",
			[]string{"class/net/bond0/bonding/slaves", "ens1f0np0 lo"}},
		{"a driver that makes no HCA of a bond", "now 100000, configured 100000",
			[]string{card + ".0/uevent", "DRIVER=ice\nPCI_ID=8086:1593"}},
		{"no bond", "now 100000, configured 100000", []string{"class/net/bond0/bonding/slaves", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openMutable(t, "roce-lag")
			for i := 0; i < len(c.files); i += 2 {
				m.write(c.files[i], c.files[i+1])
			}
			p := hca(t, m.update(rdma.Changes{}), "mlx5_bond_0").Ports[0]
			got := fmt.Sprintf("now %d, configured %d", p.RateMbps, p.ConfiguredMbps())
			if p.LAG.Slow != "" {
				got += ", slow " + p.LAG.Slow
			}
			if p.LAG.PCIeMbps != 0 {
				got += fmt.Sprintf(", PCIe %d", p.LAG.PCIeMbps)
			}
			test.Eq(t, c.want, got)
		})
	}
}
