package topology

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NCCL writes the positions of HCAs and of all GPUs in the PCIe tree in the format of NCCL_TOPO_FILE.
// NCCL finds most positions itself. The file corrects its error for SFs: without it, NCCL treats
// an SF as a network interface without a position, next to the first CPU.
//
// NCCL's own parser supports little of XML (src/graph/xml.cc of NCCL 2.30): one space between
// attributes, no declaration, no entities, values of at most 254 bytes. The file has GPUs as
// PCI functions. NCCL adds the container's GPU numbers, and omits GPUs that the container does
// not have. NCCL finds an HCA by its name, and does not read the bridges and CPUs above it, so
// the file includes them.
func NCCL(sys fs.ReadLinkFS, snap *rdma.Snapshot, hcas []*rdma.HCA, cpu CPU) ([]byte, error) {
	if err := cpu.check(); err != nil {
		return nil, err
	}
	t := &ncclTree{bus: &pciBus{sys: sys}, cpus: map[int]*ncclNode{}}
	for _, d := range Discover(sys, snap).Accelerators() {
		if d.Kind == GPU {
			t.add(d.Address, d.Bridges, d.NUMANode)
		}
	}
	for _, h := range hcas {
		if p := h.PCI; p != nil && plainName(h.IBDev) {
			where := h.DataFunction()
			n := t.add(where.Address, where.Bridges, where.NUMANode)
			n.nets = append(n.nets, h.IBDev)
			if name := h.IBDev + ncclDataDirect; where != p && plainName(name) {
				n.nets = append(n.nets, name)
			}
		}
	}
	return t.write(cpu), nil
}

// ncclDataDirect is what NCCL appends to the name of an HCA that it uses over the DMA function, which is its default
// where there is one (NCCL_IB_DATA_DIRECT; src/transport/net_ib of NCCL 2.27). Older versions and NCCL_IB_DATA_DIRECT=0
// use the plain name.
const ncclDataDirect = "_dma"

// CPU describes the host's processors for NCCL.
type CPU struct {
	Arch          string // NCCL's name: x86_64, arm64, ppc64
	Vendor        string // of x86_64: GenuineIntel
	Family, Model int
}

// ParseCPU parses /proc/cpuinfo of a machine with the given Go architecture.
func ParseCPU(cpuinfo, arch string) CPU {
	c := CPU{Arch: map[string]string{"amd64": "x86_64", "ppc64le": "ppc64"}[arch]}
	c.Arch = cmp.Or(c.Arch, arch)
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			c.Vendor = value
		case "cpu family":
			c.Family, _ = strconv.Atoi(value)
		case "model":
			c.Model, _ = strconv.Atoi(value)
		case "":
			return c // the next processor
		}
	}
	return c
}

func (c CPU) check() error {
	if c.Arch == "x86_64" && (!plainName(c.Vendor) || c.Family == 0) {
		return errors.New("write NCCL's topology: /proc/cpuinfo does not say vendor_id and cpu family")
	}
	return nil
}

// attributes returns the attributes of the CPU's element. NCCL puts the extended family in front of
// the family, but CPUID adds them.
func (c CPU) attributes() []string {
	if c.Arch != "x86_64" {
		return []string{"arch", c.Arch}
	}
	family := c.Family
	if family > 15 {
		family = 15 + (family-15)<<4
	}
	return []string{"arch", c.Arch, "vendor", c.Vendor, "familyid", strconv.Itoa(family), "modelid", strconv.Itoa(c.Model)}
}

// ncclTree is the unfinished tree, with a CPU for each NUMA node, -1 for the unknown one.
type ncclTree struct {
	bus  *pciBus
	cpus map[int]*ncclNode
}

type ncclNode struct {
	address  string // "" of a CPU
	port     string // the port above it
	nets     []string
	children []*ncclNode
}

// add adds a function below its CPU. Between them it adds every second bridge: the upstream ports of
// switches, which are the ones that NCCL uses.
func (t *ncclTree) add(address string, bridges []string, numa *int) *ncclNode {
	number := -1
	if numa != nil {
		number = *numa
	}
	at := t.cpus[number]
	if at == nil {
		at = &ncclNode{}
		t.cpus[number] = at
	}
	for i := len(bridges) % 2; i < len(bridges)-1; i += 2 {
		at = at.child(bridges[i], above(bridges, i))
	}
	return at.child(address, above(bridges, len(bridges)))
}

func above(bridges []string, i int) string {
	if i == 0 {
		return ""
	}
	return bridges[i-1]
}

func (n *ncclNode) child(address, port string) *ncclNode {
	i := slices.IndexFunc(n.children, func(c *ncclNode) bool { return c.address == address })
	if i < 0 {
		i = len(n.children)
		n.children = append(n.children, &ncclNode{address: address, port: port})
	}
	return n.children[i]
}

func (t *ncclTree) write(cpu CPU) []byte {
	var out bytes.Buffer
	out.WriteString("<system version=\"1\">\n")
	byNumber := func(a, b int) int { return cmp.Compare(uint(a), uint(b)) } // -1 comes last
	for _, number := range slices.SortedFunc(maps.Keys(t.cpus), byNumber) {
		attributes := []string{"numaid", strconv.Itoa(number)}
		if mask := t.bus.attribute(fmt.Sprintf("devices/system/node/node%d/cpumap", number)); mask != "" {
			attributes = append(attributes, "affinity", mask)
		}
		element(&out, 2, "cpu", append(attributes, cpu.attributes()...), func() {
			t.writeAll(&out, 4, t.cpus[number].children)
		})
	}
	out.WriteString("</system>\n")
	return out.Bytes()
}

func (t *ncclTree) writeAll(out *bytes.Buffer, indent int, nodes []*ncclNode) {
	slices.SortFunc(nodes, func(a, b *ncclNode) int { return rdma.ComparePCIAddresses(a.address, b.address) })
	for _, n := range nodes {
		element(out, indent, "pci", t.attributes(n), func() {
			t.writeAll(out, indent+2, n.children)
			if n.nets != nil {
				element(out, indent+2, "nic", nil, func() {
					for _, net := range n.nets {
						element(out, indent+4, "net", []string{"name", net}, nil)
					}
				})
			}
		})
	}
}

// attributes returns the attributes that NCCL reads of a PCI function. NCCL requires class and link.
func (t *ncclTree) attributes(n *ncclNode) []string {
	dir := path.Join(busPCI, n.address)
	out := []string{"busid", n.address, "class", cmp.Or(t.bus.attribute(dir+"/class"), "0x060400")}
	for _, name := range []string{"vendor", "device", "subsystem_vendor", "subsystem_device"} {
		if value := t.bus.attribute(path.Join(dir, name)); value != "" {
			out = append(out, name, value)
		}
	}
	speed, width := t.link(n.address)
	if n.port != "" {
		portSpeed, portWidth := t.link(n.port)
		if gigatransfers(portSpeed) < gigatransfers(speed) {
			speed = portSpeed
		}
		if portWidth > 0 && (width == 0 || portWidth < width) {
			width = portWidth
		}
	}
	return append(out, "link_speed", speed, "link_width", strconv.Itoa(width))
}

// link returns the maximum speed and width of a function's link. It returns "" and 0, which NCCL
// accepts, where the kernel has no value, as for a VF.
func (t *ncclTree) link(address string) (speed string, width int) {
	dir := path.Join(busPCI, address)
	speed = t.bus.attribute(dir + "/max_link_speed")
	if math.IsInf(gigatransfers(speed), 1) {
		speed = ""
	}
	width, _ = strconv.Atoi(t.bus.attribute(dir + "/max_link_width"))
	if width > 32 {
		width = 0 // 255 means unknown
	}
	return speed, width
}

// gigatransfers parses "32.0 GT/s PCIe". It returns infinity for a text that is no speed.
func gigatransfers(speed string) float64 {
	number, _, _ := strings.Cut(speed, " ")
	if n, err := strconv.ParseFloat(number, 64); err == nil {
		return n
	}
	return math.Inf(1)
}

// attribute returns the content of a file, or "" if it is not valid as an attribute's value.
func (p *pciBus) attribute(name string) string {
	b, err := fs.ReadFile(p.sys, name)
	text := strings.TrimSpace(string(b))
	if err != nil || len(text) > 254 || !plainValue(text) {
		return ""
	}
	return text
}

// plainValue reports whether a text needs no escape in NCCL's XML.
func plainValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"'<>&=`, r) })
}

func plainName(s string) bool { return s != "" && len(s) < 64 && plainValue(s) }

// element writes an element. attributes alternates names and values.
func element(out *bytes.Buffer, indent int, name string, attributes []string, inside func()) {
	fmt.Fprintf(out, "%*s<%s", indent, "", name)
	for i := 0; i < len(attributes); i += 2 {
		fmt.Fprintf(out, " %s=\"%s\"", attributes[i], attributes[i+1])
	}
	start := out.Len()
	out.WriteString(">\n")
	if inside != nil {
		inside()
	}
	if out.Len() == start+len(">\n") {
		out.Truncate(start)
		out.WriteString("/>\n")
		return
	}
	fmt.Fprintf(out, "%*s</%s>\n", indent, "", name)
}
