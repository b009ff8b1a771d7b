package genl

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Requests and attributes of RDMA netlink that package nl lacks (include/uapi/rdma/rdma_netlink.h).
const (
	portGet  = nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT | 5 // RDMA_NLDEV_CMD_PORT_GET
	ndevName = 51                                                // RDMA_NLDEV_ATTR_NDEV_NAME
)

// dumps is how many times the kernel is asked for a list that it interrupts.
const dumps = 5

// Software returns what RDMA netlink says of a software HCA. The kernel names the interface of a port only to who asks
// from the network namespace of the interface (fill_port_info, drivers/infiniband/core/nldev.c).
//
// The kernel finds a device by its number only. Numbers are kept, because a pod can add many devices, and a list of all
// for each of them would take long. The answer says whether a number is still right.
func (k *Kernel) Software(ibdev string) (*rdma.Software, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	index, known := k.numbers[ibdev]
	if known {
		if out, err := askPort(index, ibdev); err == nil {
			return out, nil
		}
	}
	numbers, err := listNumbers()
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices by netlink: %w", err)
	}
	k.numbers = numbers
	if index, known = numbers[ibdev]; !known {
		return nil, fmt.Errorf("find device %q by RDMA netlink: %w", ibdev, unix.ENODEV)
	}
	return askPort(index, ibdev)
}

// listNumbers returns the kernel's numbers of the devices of the process's network namespace, by name.
func listNumbers() (map[string]uint32, error) {
	var links []*netlink.RdmaLink
	err := error(netlink.ErrDumpInterrupted)
	for range dumps {
		if links, err = netlink.RdmaLinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	out := map[string]uint32{}
	for _, l := range links {
		out[l.Attrs.Name] = l.Attrs.Index
	}
	return out, err
}

// askPort asks for the first port of a device.
func askPort(index uint32, ibdev string) (out *rdma.Software, err error) {
	req := nl.NewNetlinkRequest(portGet, 0)
	req.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(index)))
	req.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_PORT_INDEX, nl.Uint32Attr(1)))
	answers, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%w: %d messages", errMalformed, len(answers))
	}
	if err == nil {
		out, err = decodePort(answers[0], index, ibdev)
	}
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for port 1 of device %q: %w", ibdev, err)
	}
	return out, nil
}

// decodePort reads an answer to RDMA_NLDEV_CMD_PORT_GET. The device may have got another name since it was listed.
func decodePort(b []byte, number uint32, ibdev string) (*rdma.Software, error) {
	all, err := parse(b)
	if err != nil {
		return nil, err
	}
	names := all.values(nl.RDMA_NLDEV_ATTR_DEV_NAME)
	index, ok := all.number(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 4)
	if !ok || len(names) != 1 || uint32(index) != number {
		return nil, errMalformed
	}
	if name := unix.ByteSliceToString(names[0]); name != ibdev {
		return nil, fmt.Errorf("it is called %q now", name)
	}
	out := &rdma.Software{Index: number}
	for _, name := range all.values(ndevName) {
		out.Netdev = unix.ByteSliceToString(name)
	}
	return out, nil
}
