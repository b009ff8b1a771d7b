package node

import (
	"io/fs"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/pcie"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// read reads the data that health needs besides the snapshot.
func (j *judge) read(host *Host, thresholds []health.Threshold, moves *Moves) {
	sys, snap := host.Sys, host.Snapshot
	j.readings, j.pcie = readPorts(sys, snap, thresholds, moves.count), readPCIe(sys, snap)
	j.firmware = j.asker.ask(snap, j.readings)
}

// readPCIe reads the PCIe links of the cards, and the errors at both ends of their own links.
func readPCIe(sys fs.FS, snap *rdma.Snapshot) map[string]health.PCIe {
	out := map[string]health.PCIe{}
	for _, h := range snap.Usable() {
		if h.Function != rdma.PF || h.PCI == nil {
			continue
		}
		ends := []string{h.PCI.Address}
		if n := len(h.PCI.Bridges); n > 0 {
			ends = append(ends, h.PCI.Bridges[n-1])
		}
		one := health.PCIe{Errors: pcie.Errors(sys, ends...)}
		if link, at, ok := pcie.Narrowest(sys, append([]string{h.PCI.Address}, h.PCI.Bridges...)); ok {
			one.Link, one.At = link, at
		}
		out[h.Name] = one
	}
	return out
}

// readPorts reads the data of ports that health needs besides the snapshot. It skips VFs and SFs: they have no cable of
// their own, and the addresses of their interfaces belong to a pod.
func readPorts(
	sys fs.FS, snap *rdma.Snapshot, thresholds []health.Threshold, moves func(ibdev string) uint64,
) map[health.PortID]health.Reading {
	out := map[health.PortID]health.Reading{}
	for _, h := range snap.Usable() {
		if h.Function == rdma.VF || h.Function == rdma.SF {
			continue
		}
		for p := range h.OwnPorts() {
			r := health.Reading{
				Moves: moves(h.IBDev), Counters: readCounters(sys, h.IBDev, p.Number, thresholds), Falls: readFalls(sys, h.IBDev, p),
			}
			if moves(h.IBDev) != r.Moves {
				r.Falls = nil // the count may have the fall of this move
			}
			if h.Protocol == rdma.ProtocolRoCE && p.State == rdma.PortActive {
				if routable, err := rdma.HasAssignedGID(sys, h.IBDev, p.Number); err == nil {
					r.RoutableGID = &routable
				}
			}
			out[health.PortID{Device: h.Name, Port: p.Number}] = r
		}
	}
	return out
}

// readCounters reads the error counters of a port that exist.
func readCounters(sys fs.FS, ibdev string, port int, thresholds []health.Threshold) map[string]uint64 {
	out := map[string]uint64{}
	for _, t := range thresholds {
		if n, ok := counters.ReadOne(sys, ibdev, port, t.Counter); ok {
			out[t.Counter] = n
		}
	}
	return out
}

// readFalls reads how often the kernel has seen a port fall, nil if it does not count that for the port. The drivers of
// RoCE cards leave link_downed at 0, but each interface counts the loss of its carrier.
func readFalls(sys fs.FS, ibdev string, p *rdma.Port) *uint64 {
	if p.LinkLayer == rdma.LinkInfiniBand {
		if n, ok := counters.ReadOne(sys, ibdev, p.Number, "link_downed"); ok && n != counters.LinkDownedMax {
			return &n
		}
		return nil
	}
	if n, ok := counters.ReadNetdev(sys, p.Netdev, "carrier_down_count"); ok {
		return &n
	}
	return nil
}
