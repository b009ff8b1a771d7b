package genl

import (
	"errors"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of include/uapi/linux/ethtool_netlink.h, ethtool.h and devlink.h that the library lacks.
const (
	reporterFailed = 1 // DEVLINK_HEALTH_REPORTER_STATE_ERROR

	attrType = 0x3fff // NLA_TYPE_MASK (include/uapi/linux/netlink.h)

	fecHeader        = 1 // ETHTOOL_A_FEC_HEADER
	fecStats         = 5 // ETHTOOL_A_FEC_STATS
	fecUncorrectable = 3 // ETHTOOL_A_FEC_STAT_UNCORR

	statsHeader     = 2 // ETHTOOL_A_STATS_HEADER
	statsGroups     = 3 // ETHTOOL_A_STATS_GROUPS
	statsGroup      = 4 // ETHTOOL_A_STATS_GRP
	statsGroupID    = 2 // ETHTOOL_A_STATS_GRP_ID
	statsGroupStat  = 4 // ETHTOOL_A_STATS_GRP_STAT
	statsPHY        = 0 // ETHTOOL_STATS_ETH_PHY
	phySymbolErrors = 0 // ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR

	noCable = 4 // ETHTOOL_LINK_EXT_STATE_NO_CABLE
)

var errMalformed = errors.New("the kernel's answer is malformed")

// attributes are those of one message, or nested in one.
type attributes []syscall.NetlinkRouteAttr

// parse splits a message into its attributes. The library expects that the last one is padded to four bytes.
func parse(b []byte) (attributes, error) {
	b = append(slices.Clip(b), 0, 0, 0)
	all, err := nl.ParseRouteAttr(b[:len(b)&^3])
	if err != nil {
		return nil, errMalformed
	}
	return all, nil
}

// values returns the values of the attributes of a type.
func (a attributes) values(attr uint16) (out [][]byte) {
	for _, one := range a {
		if one.Attr.Type&attrType == attr {
			out = append(out, one.Value)
		}
	}
	return out
}

// nested returns the attributes in the first attribute of a type, none if it is absent.
func (a attributes) nested(attr uint16) (attributes, error) {
	values := a.values(attr)
	if len(values) == 0 {
		return nil, nil
	}
	return parse(values[0])
}

// number returns the number in the first attribute of a type. An array of numbers has its sum first.
func (a attributes) number(attr uint16, bytes int) (uint64, bool) {
	values := a.values(attr)
	if len(values) == 0 || len(values[0]) < bytes {
		return 0, false
	}
	switch v := values[0]; bytes {
	case 1:
		return uint64(v[0]), true
	case 4:
		return uint64(nl.NativeEndian().Uint32(v)), true
	default:
		return nl.NativeEndian().Uint64(v), true
	}
}

// counter returns the counter in the first attribute of a type, nil if it is absent.
func (a attributes) counter(attr uint16) *uint64 {
	if n, ok := a.number(attr, 8); ok {
		return &n
	}
	return nil
}

// decodeReporter reads an answer to DEVLINK_CMD_HEALTH_REPORTER_GET (net/devlink/health.c,
// devlink_nl_health_reporter_fill).
func decodeReporter(b []byte) (Reporter, error) {
	all, err := parse(b)
	if err != nil {
		return Reporter{}, err
	}
	r, err := all.nested(unix.DEVLINK_ATTR_HEALTH_REPORTER)
	names := r.values(unix.DEVLINK_ATTR_HEALTH_REPORTER_NAME)
	state, known := r.number(unix.DEVLINK_ATTR_HEALTH_REPORTER_STATE, 1)
	if err != nil || len(names) == 0 || !known {
		return Reporter{}, errMalformed
	}
	out := Reporter{Name: unix.ByteSliceToString(names[0]), Failed: state == reporterFailed}
	out.Errors, _ = r.number(unix.DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT, 8)
	out.Recoveries, _ = r.number(unix.DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT, 8)
	return out, nil
}

// decodeFEC reads the uncorrectable blocks in an answer to ETHTOOL_MSG_FEC_GET (net/ethtool/fec.c). The first number is
// of all lanes. A driver that does not count them has none.
func decodeFEC(b []byte) (*uint64, error) {
	all, err := parse(b)
	if err != nil {
		return nil, err
	}
	stats, err := all.nested(fecStats)
	return stats.counter(fecUncorrectable), err
}

// decodePHY reads the symbol errors in an answer to ETHTOOL_MSG_STATS_GET (net/ethtool/stats.c). Each number is nested
// alone. A driver that does not count them has none.
func decodePHY(b []byte) (*uint64, error) {
	all, err := parse(b)
	if err != nil {
		return nil, err
	}
	for _, group := range all.values(statsGroup) {
		stats, err := parse(group)
		if err != nil {
			return nil, err
		}
		if id, ok := stats.number(statsGroupID, 4); !ok || id != statsPHY {
			continue
		}
		for _, one := range stats.values(statsGroupStat) {
			stat, err := parse(one)
			if n := stat.counter(phySymbolErrors); n != nil || err != nil {
				return n, err
			}
		}
	}
	return nil, nil
}

// decodeNoCable reads an answer to ETHTOOL_MSG_LINKSTATE_GET (net/ethtool/linkstate.c).
func decodeNoCable(b []byte) (bool, error) {
	all, err := parse(b)
	if err != nil {
		return false, err
	}
	link, known := all.number(unix.ETHTOOL_A_LINKSTATE_LINK, 1)
	why, told := all.number(unix.ETHTOOL_A_LINKSTATE_EXT_STATE, 1)
	return known && link == 0 && told && why == noCable, nil
}
