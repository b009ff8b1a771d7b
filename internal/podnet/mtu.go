package podnet

// Nobody sets the RDMA MTU of a RoCE port: the kernel derives it from the MTU of the HCA's interface. It derives that
// of a connection from the MTU of the interface whose GID the connection uses.

// roceHeaders are the bytes that the kernel takes off for headers: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4
// (iboe_get_mtu of include/rdma/ib_addr.h).
const roceHeaders = 40 + 8 + 12 + 4 + 28 + 4

// RDMAMTU returns the RDMA MTU that an interface of an MTU has, 0 if that is too small for any.
func RDMAMTU(mtu int) int {
	for rdma := 4096; rdma >= 256; rdma /= 2 {
		if mtu >= rdma+roceHeaders {
			return rdma
		}
	}
	return 0
}

// MTUNeeded returns the MTU that gives an interface at least that RDMA MTU.
func MTUNeeded(rdma int) int { return rdma + roceHeaders }
