package counters

import "slices"

// Traffic is the traffic of a port. A number that the driver does not count is nil.
type Traffic struct {
	ReceivedBytes, TransmittedBytes     *float64
	ReceivedPackets, TransmittedPackets *float64
}

// word is the unit of port_rcv_data and port_xmit_data: four octets, for any number of lanes
// (Documentation/ABI/stable/sysfs-class-infiniband).
const word = 4

// sources are the names under which drivers count traffic, in the order of preference. mlx5 and hfi1 have the standard
// counters. EFA, bnxt_re and MANA have rx_bytes and similar ones, ionic has unicast and multicast, and irdma the IP
// counters of its card. erdma has names of its own, and rxe has only packet counts. A number is the sum of the named
// counters that exist.
var sources = []struct {
	standard             bool
	rxBytes, txBytes     []string
	rxPackets, txPackets []string
}{
	{true, []string{"port_rcv_data"}, []string{"port_xmit_data"},
		[]string{"port_rcv_packets"}, []string{"port_xmit_packets"}},
	{false, []string{"rx_bytes"}, []string{"tx_bytes"}, []string{"rx_pkts"}, []string{"tx_pkts"}},
	{false, []string{"rx_rdma_ucast_bytes", "rx_rdma_mcast_bytes"}, []string{"tx_rdma_ucast_bytes", "tx_rdma_mcast_bytes"},
		[]string{"rx_rdma_ucast_pkts", "rx_rdma_mcast_pkts"}, []string{"tx_rdma_ucast_pkts", "tx_rdma_mcast_pkts"}},
	{false, []string{"rx_bytes_cnt"}, []string{"tx_bytes_cnt"}, []string{"rx_packets_cnt"}, []string{"tx_packets_cnt"}},
	{false, nil, nil, []string{"rcvd_pkts"}, []string{"sent_pkts"}},
	{false, []string{"ip4InOctets", "ip6InOctets"}, []string{"ip4OutOctets", "ip6OutOctets"},
		[]string{"ip4InPkts", "ip6InPkts"}, []string{"ip4OutPkts", "ip6OutPkts"}},
}

// Traffic returns the port's traffic in bytes and packets, from its counters.
func (p Port) Traffic() Traffic {
	var t Traffic
	for _, s := range sources {
		list, unit := p.Hardware, 1.0
		if s.standard {
			list, unit = p.Standard, word
		}
		setSum(&t.ReceivedBytes, list, s.rxBytes, unit)
		setSum(&t.TransmittedBytes, list, s.txBytes, unit)
		setSum(&t.ReceivedPackets, list, s.rxPackets, 1)
		setSum(&t.TransmittedPackets, list, s.txPackets, 1)
	}
	return t
}

// setSum sets a number to the sum of the named counters, unless an earlier source has set it.
func setSum(number **float64, list []Counter, names []string, unit float64) {
	if *number != nil {
		return
	}
	sum, found := 0.0, false
	for _, c := range list {
		if slices.Contains(names, c.Name) {
			sum, found = sum+float64(c.Value)*unit, true
		}
	}
	if found {
		*number = &sum
	}
}
