package node

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/pcie"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestReadFalls: the interface's count of a RoCE port, the port's own of InfiniBand unless it is at its end, and
// nothing where neither can be read.
func TestReadFalls(t *testing.T) {
	sys := fstest.MapFS{}
	for file, content := range map[string]string{
		"infiniband/mlx5_0/ports/1/counters/link_downed": "7\n", "infiniband/mlx5_0/ports/2/counters/link_downed": "255\n",
		"net/ens1/carrier_down_count": "3\n", "net/ens2/carrier_down_count": "x\n",
	} {
		sys["class/"+file] = &fstest.MapFile{Data: []byte(content)}
	}
	for want, port := range map[string]rdma.Port{
		"7": {Number: 1, LinkLayer: rdma.LinkInfiniBand}, "none at its end": {Number: 2, LinkLayer: rdma.LinkInfiniBand},
		"3":                 {Number: 1, LinkLayer: rdma.LinkEthernet, Netdev: "ens1"},
		"none unreadable":   {Number: 1, LinkLayer: rdma.LinkEthernet, Netdev: "ens2"},
		"none in a pod":     {Number: 1, LinkLayer: rdma.LinkEthernet, Netdev: "ens3"},
		"none without name": {Number: 1, LinkLayer: rdma.LinkEthernet},
	} {
		got := "none"
		if n := readFalls(sys, "mlx5_0", &port); n != nil {
			got = fmt.Sprint(*n)
		}
		test.StrHasPrefix(t, got, want)
	}
}

// TestReadPCIe: the narrowest link of a card up to the root, and the errors of both ends of its own link. VFs have
// none.
func TestReadPCIe(t *testing.T) {
	sys := fstest.MapFS{}
	for device, lanes := range map[string]string{"card": "16", "port": "16", "up": "8", "root": "16"} {
		dir := "bus/pci/devices/" + device + "/"
		sys[dir+"current_link_speed"] = &fstest.MapFile{Data: []byte("32.0 GT/s PCIe\n")}
		sys[dir+"current_link_width"] = &fstest.MapFile{Data: []byte(lanes + "\n")}
		sys[dir+"aer_dev_correctable"] = &fstest.MapFile{Data: []byte("RxErr 1\nTOTAL_ERR_COR 1\n")}
	}
	h := rdma.HCA{Name: "pf", IBDev: "mlx5_0", Function: rdma.PF, Uverbs: &rdma.Node{},
		PCI: &rdma.PCIFunction{Address: "card", Bridges: []string{"root", "up", "port"}}}
	vf := h
	vf.Name, vf.Function = "vf", rdma.VF
	want := map[string]health.PCIe{"pf": {
		PCIeLink: health.PCIeLink{Link: rdma.PCIeLink{MTs: 32000, Lanes: 8}, At: "up"}, Errors: map[string]uint64{pcie.Correctable: 2},
	}}
	test.Eq(t, want, readPCIe(sys, &rdma.Snapshot{HCAs: []rdma.HCA{h, vf}}), test.Sprint("readings"))
}

// TestReadPorts: counters that are there, and whether a RoCE port has an address.
func TestReadPorts(t *testing.T) {
	golden.Cases(t, "ports", func(t *testing.T, files map[string]string) string {
		sys := fstest.MapFS{}
		for file, content := range files {
			sys["class/infiniband/mlx5_0/ports/1/"+file] = &fstest.MapFile{Data: []byte(content)}
		}
		h := rdma.HCA{Name: "pf", IBDev: "mlx5_0", Function: rdma.PF, Protocol: rdma.ProtocolRoCE, NodeType: rdma.NodeTypeCA,
			Uverbs: &rdma.Node{}, Ports: []rdma.Port{{Number: 1, LinkLayer: rdma.LinkEthernet, State: rdma.PortActive}}}
		vf := h
		vf.Name, vf.Function = "vf", rdma.VF
		got := readPorts(sys, &rdma.Snapshot{HCAs: []rdma.HCA{h, vf}}, health.DefaultThresholds(), new(Moves).count)
		must.MapLen(t, 1, got)
		data, err := json.MarshalIndent(got[health.PortID{Device: "pf", Port: 1}], "", "  ")
		must.NoError(t, err)
		return string(data)
	})
}

// TestFallsOfMoves: a count that may have the fall of a move is not read, and the next one says that there was a move.
func TestFallsOfMoves(t *testing.T) {
	sys := fstest.MapFS{"class/net/ens1/carrier_down_count": {Data: []byte("7\n")}}
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{{Name: "pf", IBDev: "mlx5_0", Function: rdma.PF, Uverbs: &rdma.Node{},
		Ports: []rdma.Port{{Number: 1, LinkLayer: rdma.LinkEthernet, Netdev: "ens1"}}}}}
	m := &Moves{mover: midway(func() {})}
	read := func(moves func(string) uint64) health.Reading {
		return readPorts(sys, snap, nil, moves)[health.PortID{Device: "pf", Port: 1}]
	}
	before := read(m.count)
	during := read(func(ibdev string) uint64 { defer m.Moving(ibdev)(); return m.count(ibdev) })
	_, err := m.In("mlx5_0", "/run/netns/pod")
	must.NoError(t, err)
	after := read(m.count)
	test.True(t, before.Falls != nil && during.Falls == nil && after.Falls != nil &&
		after.Moves != before.Moves, test.Sprintf("before %+v, meanwhile %+v, after %+v", before, during, after))
}
