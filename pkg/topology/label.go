package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// vendors names the vendors of HCAs and accelerators (PCI vendor IDs,
// https://pci-ids.ucw.cz). The picture shows the number of other vendors.
var vendors = map[string]string{
	"1002": "AMD",
	"1077": "QLogic",
	"10de": "NVIDIA",
	"10ee": "Xilinx",
	"1137": "Cisco",
	"1414": "Microsoft",
	"1425": "Chelsio",
	"14e4": "Broadcom",
	"15b3": "NVIDIA Mellanox",
	"1af4": "virtio",
	"1d0f": "Amazon",
	"1da3": "Habana",
	"1ded": "Alibaba",
	"1dd8": "Pensando",
	"1e52": "Tenstorrent",
	"19e5": "Huawei",
	"434e": "Cornelis",
	"8086": "Intel",
}

// onlyDisplays are vendors whose VGA controllers (class 0300) only show a console: management
// processors, then virtual machines.
var onlyDisplays = map[string]bool{
	"102b": true, // Matrox
	"126f": true, // Silicon Motion
	"19e5": true, // Huawei iBMC
	"1a03": true, // ASPEED

	"1013": true, // Cirrus Logic, as QEMU emulates it
	"1234": true, // QEMU
	"1414": true, // Hyper-V
	"15ad": true, // VMware
	"1af4": true, // virtio
	"1b36": true, // QXL
	"1d0f": true, // Amazon EC2
	"80ee": true, // VirtualBox
}

// vendor returns the vendor and the IDs of a device: "NVIDIA 10de:2330".
func (d *Device) vendor() string {
	if d.Vendor == "" {
		return ""
	}
	return strings.TrimSpace(vendors[d.Vendor] + " " + d.Vendor + ":" + d.ID)
}

// rate returns the speed of an active port, "400 Gb/s", or the state of another one.
func (p *Port) rate() string {
	if p.RateMbps > 0 {
		return strconv.FormatFloat(float64(p.RateMbps)/1000, 'f', -1, 64) + " Gb/s"
	}
	return string(p.State)
}

func (p *Port) rail() string {
	if p.Rail == nil {
		return ""
	}
	return "rail " + strconv.Itoa(*p.Rail)
}

// protocolNames are the display names of the transports.
var protocolNames = map[rdma.Protocol]string{
	rdma.ProtocolIB:    "InfiniBand",
	rdma.ProtocolRoCE:  "RoCE",
	rdma.ProtocolIWARP: "iWARP",
	rdma.ProtocolEFA:   "EFA",
	rdma.ProtocolOPA:   "Omni-Path",
}

// folded returns the number of functions that a device counts: "8 VFs, 2 SFs".
func (d *Device) folded() string {
	var parts []string
	if d.VFs > 0 {
		parts = append(parts, text.Count(d.VFs, "VF"))
	}
	if d.SFs > 0 {
		parts = append(parts, text.Count(d.SFs, "SF"))
	}
	if parts != nil && d.Function != rdma.PF && d.Kind == HCA {
		parts[0] = "+ " + parts[0] // the device itself is one of the VFs
	}
	return strings.Join(parts, ", ")
}

// traits returns the text of a line after the device's name and address.
func (d *Device) traits() []string {
	var out []string
	if d.Kind != HCA {
		out = append(out, d.vendor(), d.folded())
	} else {
		out = append(out, protocolNames[d.Port.Protocol], d.Port.rate(),
			text.Terminal(d.Port.Netdev), d.Port.rail(), d.folded())
	}
	if d.Function == rdma.Virtual && d.Address != "" {
		out = append(out, "software") // the address is that of the network card
	}
	if d.DataDirect != "" {
		out = append(out, "data by "+text.Terminal(d.DataDirect))
	}
	out = append(out, text.Terminal(d.Note))
	return compact(out)
}

func compact(in []string) []string {
	return slices.DeleteFunc(in, func(s string) bool { return s == "" })
}

// section is a part of the drawn tree.
type section struct {
	title, tip string
	nodes      []*Node
}

// sections returns the NUMA nodes, then the software HCAs.
func (t *Topology) sections() []section {
	var out []section
	for _, n := range t.NUMANodes {
		title := "NUMA node not known"
		if n.Number != nil {
			title = fmt.Sprintf("NUMA node %d", *n.Number)
		}
		out = append(out, section{title, title, n.Roots})
	}
	var soft []*Node
	for _, d := range t.where(func(d *Device) bool { return d.Address == "" }) {
		soft = append(soft, &Node{Kind: NodeDevice, Device: d})
	}
	if soft != nil {
		out = append(out, section{"Software HCAs", "HCAs without hardware of their own", soft})
	}
	return out
}

// summary returns the numbers of devices by kind.
func (t *Topology) summary() string {
	count := map[Kind]int{}
	for _, d := range t.Devices {
		count[d.Kind]++
	}
	parts := []string{text.Count(count[HCA], "HCA")}
	if n := count[GPU]; n > 0 {
		parts = append(parts, text.Count(n, "GPU"))
	}
	if n := count[Accelerator]; n > 0 {
		parts = append(parts, text.Count(n, "accelerator"))
	}
	return strings.Join(parts, ", ")
}
