// Package counters reads the counters that the kernel keeps for an RDMA device.
//
// The counters are in three directories of sysfs. A driver may provide any of the three:
//
//	ports/N/counters       the counters of the InfiniBand architecture (PortCounters)
//	ports/N/hw_counters    additional counters of the driver for a port
//	hw_counters            counters of the driver for the device
//
// The driver determines the names and meanings of its counters. Every file with a decimal number is a counter, for any
// driver. Values are as the kernel reports them, so port_rcv_data and port_xmit_data are in words of four octets.
// [Port.Traffic] returns them in bytes, and finds the corresponding counters of drivers without these two files. A
// counter that is missing or unreadable is absent, and not 0.
//
// The counters of the architecture that are 8, 16 or 32 bits wide, such as link_downed and symbol_error, stay at their
// maximum until somebody clears them.
package counters
