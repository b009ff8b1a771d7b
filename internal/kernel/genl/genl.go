// Package genl asks the kernel by netlink what no file says of an HCA: the health of its firmware (devlink), the errors
// of its Ethernet link, whether a cable is there (ethtool), and whether the interface of a software HCA is in the
// network namespace of this process (RDMA netlink). It is a leaf: netlink.
//
// Every question is one that the kernel answers to anybody: it needs no capability. The questions that read a card's
// state in depth (diagnose, dump) need CAP_NET_ADMIN, and are not asked.
package genl

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Kernel asks the running kernel, in the network namespace of the process. It is safe for concurrent use. A question
// waits for the kernel's locks, which a card that recovers holds for as long as that takes: the caller bounds the time.
type Kernel struct {
	families sync.Map // the kernel's numbers by the names of families

	mu      sync.Mutex
	numbers map[string]uint32 // of RDMA devices, which may have changed
}

// Reporter is a devlink health reporter: a part of a card whose driver watches it.
type Reporter struct {
	Name string
	// Failed says that the reporter is in the state error: the driver has found an error, and no recovery has ended it.
	Failed bool
	// Errors and Recoveries are their numbers since the driver was loaded.
	Errors, Recoveries uint64
}

// Reporters returns those of some health reporters of a device that exist, in their order. A device without devlink has
// none. An error means that nothing is known of one of them.
func (k *Kernel) Reporters(bus, device string, names ...string) ([]Reporter, error) {
	var out []Reporter
	for _, name := range names {
		answer, err := k.ask(unix.DEVLINK_GENL_NAME, nl.GENL_DEVLINK_VERSION, unix.DEVLINK_CMD_HEALTH_REPORTER_GET,
			nl.NewRtAttr(nl.DEVLINK_ATTR_BUS_NAME, nl.ZeroTerminated(bus)),
			nl.NewRtAttr(nl.DEVLINK_ATTR_DEV_NAME, nl.ZeroTerminated(device)),
			nl.NewRtAttr(unix.DEVLINK_ATTR_HEALTH_REPORTER_NAME, nl.ZeroTerminated(name)))
		if isAbsent(err) {
			continue
		}
		var r Reporter
		if err == nil {
			r, err = decodeReporter(answer)
		}
		if err != nil {
			return nil, fmt.Errorf("ask devlink for the health reporter %q of %q: %w", name, bus+"/"+device, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// FECUncorrectable returns how many blocks (codewords) of an Ethernet interface forward error correction could not
// correct. It returns nil if the driver does not count them.
func (k *Kernel) FECUncorrectable(netdev string) (*uint64, error) {
	return k.count(netdev, decodeFEC, unix.ETHTOOL_MSG_FEC_GET, header(fecHeader, netdev, unix.ETHTOOL_FLAG_STATS))
}

// SymbolErrors returns the symbol errors of an Ethernet interface while its link was up (IEEE 802.3 30.3.2.1.5
// aSymbolErrorDuringCarrier). It returns nil if the driver does not count them.
func (k *Kernel) SymbolErrors(netdev string) (*uint64, error) {
	return k.count(netdev, decodePHY, unix.ETHTOOL_MSG_STATS_GET, header(statsHeader, netdev, 0), phyGroup())
}

// count asks ethtool for one counter.
func (k *Kernel) count(
	netdev string, decode func([]byte) (*uint64, error), command uint8, attrs ...*nl.RtAttr,
) (n *uint64, err error) {
	answer, err := k.ask(unix.ETHTOOL_GENL_NAME, unix.ETHTOOL_GENL_VERSION, command, attrs...)
	if isAbsent(err) {
		return nil, nil
	}
	if err == nil {
		n, err = decode(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("ask ethtool (command %d) for errors of interface %q: %w", command, netdev, err)
	}
	return n, nil
}

// NoCable reports whether the kernel says that an interface which is up has no link because it has no cable. A driver
// that does not tell, and an interface that is down, are false.
func (k *Kernel) NoCable(netdev string) (bool, error) {
	answer, err := k.ask(unix.ETHTOOL_GENL_NAME, unix.ETHTOOL_GENL_VERSION, unix.ETHTOOL_MSG_LINKSTATE_GET,
		header(unix.ETHTOOL_A_LINKSTATE_HEADER, netdev, 0))
	if isAbsent(err) {
		return false, nil
	}
	var none bool
	if err == nil {
		none, err = decodeNoCable(answer)
	}
	if err != nil {
		return false, fmt.Errorf("ask ethtool for the link of interface %q: %w", netdev, err)
	}
	return none, nil
}

// isAbsent reports whether the kernel has answered that there is no such device, reporter (EINVAL), interface, counter,
// or that it has no such family of questions (ENOENT).
func isAbsent(err error) bool {
	return slices.ContainsFunc([]error{unix.ENODEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOENT},
		func(absent error) bool { return errors.Is(err, absent) })
}

// ask sends one question and returns the attributes of the kernel's answer, which is one datagram.
func (k *Kernel) ask(family string, version, command uint8, attrs ...*nl.RtAttr) ([]byte, error) {
	id, err := k.family(family)
	if err != nil {
		return nil, err
	}
	req := nl.NewNetlinkRequest(int(id), 0)
	req.AddData(&nl.Genlmsg{Command: command, Version: version})
	for _, a := range attrs {
		req.AddData(a)
	}
	answers, err := req.Execute(unix.NETLINK_GENERIC, id)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 || len(answers[0]) < nl.SizeofGenlmsg {
		return nil, fmt.Errorf("%w: %d messages", errMalformed, len(answers))
	}
	return answers[0][nl.SizeofGenlmsg:], nil
}

// family returns the number of a family. Both families are part of the kernel itself, so a number is valid until the
// next boot.
func (k *Kernel) family(name string) (uint16, error) {
	if id, ok := k.families.Load(name); ok {
		return id.(uint16), nil
	}
	f, err := netlink.GenlFamilyGet(name)
	if err != nil {
		return 0, err
	}
	k.families.Store(name, f.ID)
	return f.ID, nil
}

// header names the interface of a question for ethtool.
func header(attr int, netdev string, flags uint32) *nl.RtAttr {
	h := nl.NewRtAttr(attr|unix.NLA_F_NESTED, nil)
	h.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(netdev))
	if flags != 0 {
		h.AddRtAttr(unix.ETHTOOL_A_HEADER_FLAGS, nl.Uint32Attr(flags))
	}
	return h
}

// phyGroup is the set of groups of statistics that has only that of the PHY (bit ETHTOOL_STATS_ETH_PHY).
func phyGroup() *nl.RtAttr {
	g := nl.NewRtAttr(statsGroups|unix.NLA_F_NESTED, nil)
	g.AddRtAttr(unix.ETHTOOL_A_BITSET_NOMASK, nil)
	g.AddRtAttr(unix.ETHTOOL_A_BITSET_SIZE, nl.Uint32Attr(1))
	g.AddRtAttr(unix.ETHTOOL_A_BITSET_VALUE, nl.Uint32Attr(1<<statsPHY))
	return g
}
