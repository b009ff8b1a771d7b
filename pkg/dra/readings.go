package dra

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/counters"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// readPorts reads what health needs to know of ports beside the snapshot. A VF or SF
// has no cable of its own, and the addresses of its interface are those of a pod.
func readPorts(sys fs.FS, snap *rdma.Snapshot, thresholds []health.Threshold) map[health.PortID]health.Reading {
	out := map[health.PortID]health.Reading{}
	for _, h := range snap.Usable() {
		if h.Function == rdma.VF || h.Function == rdma.SF {
			continue
		}
		for i := range h.Ports {
			p := &h.Ports[i]
			if p.Representor {
				continue
			}
			r := health.Reading{Counters: readCounters(sys, h.IBDev, p.Number, thresholds)}
			if h.Protocol == rdma.ProtocolRoCE && p.State == rdma.PortActive {
				r.RoutableGIDs = readRoutable(sys, path.Join("class/infiniband", h.IBDev, "ports", strconv.Itoa(p.Number)))
			}
			out[health.PortID{Device: h.Name, Port: p.Number}] = r
		}
	}
	return out
}

// readCounters reads the error counters of a port that there are.
func readCounters(sys fs.FS, ibdev string, port int, thresholds []health.Threshold) map[string]uint64 {
	out := map[string]uint64{}
	for _, t := range thresholds {
		if n, ok := counters.ReadOne(sys, ibdev, port, t.Counter); ok {
			out[t.Counter] = n
		}
	}
	return out
}

// readRoutable returns 1 if a port has a RoCE v2 GID that is not link-local, 0 if it has
// none, and nil if that cannot be known. It reads no further than to the first one.
func readRoutable(sys fs.FS, port string) *int {
	entries, err := fs.ReadDir(sys, path.Join(port, "gids"))
	if err != nil || len(entries) == 0 {
		return nil
	}
	var indexes []int
	for _, e := range entries {
		if i, err := strconv.Atoi(e.Name()); err == nil {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		gid, err := fs.ReadFile(sys, fmt.Sprintf("%s/gids/%d", port, i))
		if err != nil || !routable(string(gid)) {
			continue
		}
		kind, err := fs.ReadFile(sys, fmt.Sprintf("%s/gid_attrs/types/%d", port, i))
		if err == nil && strings.TrimSpace(string(kind)) == "RoCE v2" {
			return new(1)
		}
	}
	return new(0)
}

// routable reports whether a GID is an address that leads beyond the link. Unused
// entries of the table are zero.
func routable(gid string) bool {
	address, err := netip.ParseAddr(strings.TrimSpace(gid))
	return err == nil && !address.IsUnspecified() && !address.IsLinkLocalUnicast()
}
