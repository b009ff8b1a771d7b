package counters

// Traffic is the traffic of a port. A number that the driver does not count is nil.
type Traffic struct {
	ReceivedBytes, TransmittedBytes     *float64
	ReceivedPackets, TransmittedPackets *float64
}

// word is the unit of port_rcv_data and port_xmit_data: four octets, for any number of lanes
// (Documentation/ABI/stable/sysfs-class-infiniband).
const word = 4

// source defines where to find a number: it is the sum of the named counters that exist.
type source struct {
	standard bool
	names    []string
	unit     float64
}

// The sources in the order of preference. mlx5 and hfi1 have the standard counters. EFA, bnxt_re and MANA have rx_bytes
// and similar ones, and irdma the IP counters of its card. erdma has names of its own, and rxe has only packet counts.
var (
	receivedBytes = []source{
		{true, []string{"port_rcv_data"}, word},
		{false, []string{"rx_bytes"}, 1},
		{false, []string{"rx_bytes_cnt"}, 1},
		{false, []string{"ip4InOctets", "ip6InOctets"}, 1},
	}
	transmittedBytes = []source{
		{true, []string{"port_xmit_data"}, word},
		{false, []string{"tx_bytes"}, 1},
		{false, []string{"tx_bytes_cnt"}, 1},
		{false, []string{"ip4OutOctets", "ip6OutOctets"}, 1},
	}
	receivedPackets = []source{
		{true, []string{"port_rcv_packets"}, 1},
		{false, []string{"rx_pkts"}, 1},
		{false, []string{"rx_packets_cnt"}, 1},
		{false, []string{"rcvd_pkts"}, 1},
		{false, []string{"ip4InPkts", "ip6InPkts"}, 1},
	}
	transmittedPackets = []source{
		{true, []string{"port_xmit_packets"}, 1},
		{false, []string{"tx_pkts"}, 1},
		{false, []string{"tx_packets_cnt"}, 1},
		{false, []string{"sent_pkts"}, 1},
		{false, []string{"ip4OutPkts", "ip6OutPkts"}, 1},
	}
)

// Traffic returns the port's traffic in bytes and packets, from its counters.
func (p Port) Traffic() Traffic {
	return Traffic{
		ReceivedBytes: p.first(receivedBytes), TransmittedBytes: p.first(transmittedBytes),
		ReceivedPackets: p.first(receivedPackets), TransmittedPackets: p.first(transmittedPackets),
	}
}

// first returns the number of the first available source, or nil.
func (p Port) first(sources []source) *float64 {
	for _, s := range sources {
		list := p.Hardware
		if s.standard {
			list = p.Standard
		}
		if sum, ok := s.sum(list); ok {
			return &sum
		}
	}
	return nil
}

func (s source) sum(list []Counter) (sum float64, ok bool) {
	for _, c := range list {
		for _, name := range s.names {
			if c.Name == name {
				sum, ok = sum+float64(c.Value)*s.unit, true
			}
		}
	}
	return sum, ok
}
