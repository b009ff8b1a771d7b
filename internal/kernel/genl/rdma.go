package genl

import (
	"errors"
	"fmt"
	"slices"

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
func (*Kernel) Software(ibdev string) (*rdma.Software, error) {
	link, err := rdmaLink(ibdev)
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for device %q: %w", ibdev, err)
	}
	req := nl.NewNetlinkRequest(portGet, 0)
	req.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(link.Attrs.Index)))
	req.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_PORT_INDEX, nl.Uint32Attr(1)))
	answers, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%w: %d messages", errMalformed, len(answers))
	}
	var out *rdma.Software
	if err == nil {
		out, err = decodePort(answers[0], link.Attrs)
	}
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for port 1 of device %q: %w", ibdev, err)
	}
	return out, nil
}

// rdmaLink finds a device in the list of the process's network namespace.
func rdmaLink(ibdev string) (*netlink.RdmaLink, error) {
	for range dumps {
		links, err := netlink.RdmaLinkList()
		i := slices.IndexFunc(links, func(l *netlink.RdmaLink) bool { return l.Attrs.Name == ibdev })
		switch {
		case i >= 0:
			return links[i], nil
		case err == nil:
			return nil, unix.ENODEV
		case !errors.Is(err, netlink.ErrDumpInterrupted):
			return nil, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

// decodePort reads an answer to RDMA_NLDEV_CMD_PORT_GET. The device may have got another name since it was listed.
func decodePort(b []byte, of netlink.RdmaLinkAttrs) (*rdma.Software, error) {
	all, err := parse(b)
	if err != nil {
		return nil, err
	}
	names := all.values(nl.RDMA_NLDEV_ATTR_DEV_NAME)
	index, ok := all.number(nl.RDMA_NLDEV_ATTR_DEV_INDEX, 4)
	if !ok || len(names) != 1 || uint32(index) != of.Index {
		return nil, errMalformed
	}
	if name := unix.ByteSliceToString(names[0]); name != of.Name {
		return nil, fmt.Errorf("it is called %q now", name)
	}
	out := &rdma.Software{Index: of.Index}
	for _, name := range all.values(ndevName) {
		out.Netdev = unix.ByteSliceToString(name)
	}
	return out, nil
}
