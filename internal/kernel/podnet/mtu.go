package podnet

import "fmt"

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

// LowMTU returns why RDMA connections over an interface have smaller packets than the HCA can send. It returns "" if
// they have not. mtu is the MTU of the interface, and hca that of the HCA's own interface.
func LowMTU(name string, mtu, hca int) string {
	has, can := RDMAMTU(mtu), RDMAMTU(hca)
	if has >= can {
		return ""
	}
	return fmt.Sprintf("network interface %s has MTU %d, so RDMA connections over it have packets of %d bytes, and the "+
		"HCA can have %d: that needs MTU %d (network.mtu of the claim or class, or a VLAN interface of the host)",
		name, mtu, has, can, MTUNeeded(can))
}

// LowMTU returns the result of [LowMTU] for interfaces on top of one of the host, "" if it cannot be read.
func (h *Host) LowMTU(netdev, on string) (low string) {
	_ = h.own.Do(func() error {
		own, err := linkByName(netdev)
		if err != nil {
			return err
		}
		parent, err := linkByName(on)
		if err == nil {
			low = LowMTU(on, parent.Attrs().MTU, own.Attrs().MTU)
		}
		return err
	})
	return low
}
