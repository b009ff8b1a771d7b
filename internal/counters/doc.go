// Package counters reads the counters that the kernel keeps of an RDMA device.
//
// The counters stand in three directories of sysfs. A driver has any number of the three:
//
//	ports/N/counters       the counters of the InfiniBand architecture (PortCounters)
//	ports/N/hw_counters    those of a port that the driver has besides
//	hw_counters            those of the device
//
// Names are the driver's own, and so is what is counted: whatever file holds a decimal
// number is a counter, whichever driver made it. Values are as the kernel has them,
// so port_rcv_data and port_xmit_data are in words of four octets; [Port.Traffic] has
// them in bytes, and finds what drivers without those two files have instead. A counter
// that is not there, or that cannot be read, is absent and not 0.
//
// The 8, 16 and 32 bit wide counters of the architecture, such as link_downed and
// symbol_error, stay at their maximum until somebody clears them.
package counters
