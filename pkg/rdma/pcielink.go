package rdma

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// PCIeLink is the state of a PCIe link. It is comparable.
type PCIeLink struct {
	MTs   int // the rate of a lane in units of 10^6 transfers a second: 32000
	Lanes int
}

// maxLanes is the widest link of the standard.
const maxLanes = 32

// Capacity is the product of rate and lanes, for comparisons. It ignores the encoding, which differs before PCIe 3.
func (l PCIeLink) Capacity() int { return l.MTs * l.Lanes }

// Mbps is what a link carries, in units of 10^6 bit/s, without its encoding (drivers/pci/pci.h, PCIE_SPEED2MBS_ENC).
func (l PCIeLink) Mbps() int {
	switch {
	case l.MTs <= 5000:
		return l.Capacity() * 8 / 10
	case l.MTs < 64000:
		return l.Capacity() * 128 / 130
	}
	return l.Capacity()
}

// String formats a link as 32x16: GT/s and lanes.
func (l PCIeLink) String() string {
	return strconv.FormatFloat(float64(l.MTs)/1000, 'f', -1, 64) + "x" + strconv.Itoa(l.Lanes)
}

// ReadPCIeLink reads the link above a device: the "current" one, or the "max" that the device can have. It returns
// false if there is none: a link that is down has no rate, and 0 or 63 lanes, and a VF has no link of its own.
func ReadPCIeLink(sys fs.FS, dir, which string) (PCIeLink, bool) {
	rate, unit, _ := strings.Cut(attribute(sys, path.Join(dir, which+"_link_speed")), " ")
	if !strings.HasPrefix(unit, "GT/s") {
		return PCIeLink{}, false
	}
	l, err := ParsePCIeLink(rate + "x" + attribute(sys, path.Join(dir, which+"_link_width")))
	return l, err == nil
}

// ParsePCIeLink parses the form of String.
func ParsePCIeLink(s string) (PCIeLink, error) {
	rate, lanes, _ := strings.Cut(s, "x")
	gts, err := strconv.ParseFloat(rate, 64)
	n, errLanes := strconv.Atoi(lanes)
	if err != nil || errLanes != nil || !(gts >= 1 && gts < 1000) || n < 1 || n > maxLanes {
		return PCIeLink{}, fmt.Errorf("want GT/s and lanes, as 32x16, not %q", s)
	}
	return PCIeLink{int(gts * 1000), n}, nil
}
