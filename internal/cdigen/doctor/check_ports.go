package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	noActivePort = catalogue.Kind("no-active-port", portState)
	portDown     = catalogue.Kind("port-down", portState, "/sys/class/net/*/flags")
	portInit     = catalogue.Kind("port-init", portState)
	portsOK      = catalogue.Kind("ports-ok", portState)
	guidZero     = catalogue.Kind("guid-zero", "/sys/class/infiniband/*/node_guid")
	roceNoGID    = catalogue.Kind("roce-no-gid", portAddresses, "addresses (GIDs) of *")
	roceGIDsOK   = catalogue.Kind("roce-gids-ok", portAddresses, "addresses (GIDs) of *")
)

// portRef is a port with its HCA.
type portRef struct {
	hca  *rdma.HCA
	port *rdma.Port
}

func (p portRef) String() string { return fmt.Sprintf("%s/%d", p.hca.IBDev, p.port.Number) }

// portsOf lists the ports of usable HCAs that carry traffic and have a known state. unknown means that the state of
// another one could not be read, which checkDevices reports.
func portsOf(snap *rdma.Snapshot) (refs []portRef, unknown bool) {
	for _, h := range snap.Usable() {
		for p := range h.OwnPorts() {
			if p.State == "" {
				unknown = true
				continue
			}
			refs = append(refs, portRef{h, p})
		}
	}
	return refs, unknown
}

// checkPorts checks the state of the ports.
func checkPorts(f *facts, out *findings) {
	down := map[downCause][]portRef{}
	var starting, vfs []portRef
	active := 0
	ports, unknown := portsOf(f.snap)
	for _, p := range ports {
		switch {
		case p.port.State == rdma.PortActive || p.port.State == rdma.PortActiveDefer:
			active++
		case p.port.LinkLayer == rdma.LinkInfiniBand && (p.port.State == rdma.PortInit || p.port.State == rdma.PortArmed):
			if p.parentActive(f.snap) {
				vfs = append(vfs, p)
			} else {
				starting = append(starting, p)
			}
		default:
			cause := p.whyDown(f.host)
			down[cause] = append(down[cause], p)
		}
	}
	if len(ports) > 0 && active == 0 && !unknown {
		out.add(noActivePort.Found(finding.Error, "no port of this host is ACTIVE").
			Because("no RDMA traffic leaves this host").
			See("cdi-gen list", "rdma link"))
	}
	for _, cause := range slices.SortedFunc(maps.Keys(down), downCause.compare) {
		first := down[cause][0]
		out.add(foundIn(texts(down[cause]), portDown, finding.Warning, "port",
			" down ("+cmp.Or(cause.phys, "physical state unknown")+")").
			Because("%s", cause.reason).Do(strings.ReplaceAll(cause.fix, "NETDEV", text.Shell(first.port.Netdev))).
			See(strings.ReplaceAll(cause.look, "NETDEV", text.Shell(first.port.Netdev)),
				"rdma link show "+text.Shell(first.String())))
	}
	const notActive = " that no subnet manager has made ACTIVE"
	if len(starting) > 0 {
		out.add(foundIn(texts(starting), portInit, finding.Warning, "port", notActive).
			Because("the link is up, and the port has no address (LID) yet: no subnet manager runs, does not reach it or "+
				"does not know it; a VF without a GUID stays in this state").
			See("sminfo -C "+text.Shell(starting[0].hca.IBDev), "systemctl status opensm"))
	}
	if len(vfs) > 0 {
		out.add(foundIn(texts(vfs), portInit, finding.Warning, "VF port", notActive).
			Because("its PF's port is ACTIVE, so the fabric has a subnet manager: the VF has no GUID, its state does not " +
				"follow the PF's, or the subnet manager does not serve VFs (opensm: virt_enabled 2)").
			Do(guidCommands(f.snap, vfs[0].hca)...).See("sminfo -C " + text.Shell(vfs[0].hca.IBDev)))
	}
	if len(ports) > 0 && active == len(ports) && !unknown {
		out.add(portsOK.Found(finding.OK, text.Count(len(ports), "port")+" ACTIVE"))
	}
}

// parentActive reports whether a port is that of a VF whose PF has an ACTIVE port on this host.
func (p portRef) parentActive(snap *rdma.Snapshot) bool {
	return p.hca.Function == rdma.VF && slices.ContainsFunc(snap.HCAs, func(h rdma.HCA) bool {
		return h.Identity.PCI == p.hca.PF && h.Port1() != nil && h.Port1().State == rdma.PortActive
	})
}

// downCause is why a port is down, as far as the host shows it. NETDEV in a command is the interface of the port.
type downCause struct{ phys, reason, fix, look string }

func (c downCause) compare(o downCause) int {
	return cmp.Or(cmp.Compare(c.phys, o.phys), cmp.Compare(c.reason, o.reason))
}

// whyDown returns why a port is down. The physical state of an Ethernet port says less than it seems to: drivers report
// "Disabled" for an interface that is down and for one without a carrier (drivers/infiniband/hw/mlx5/main.c,
// mlx5_query_port_roce). The state of an IPoIB interface, in turn, says nothing of its port.
func (p portRef) whyDown(host *reader) downCause {
	c := downCause{phys: p.port.PhysState}
	if p.port.LinkLayer != rdma.LinkEthernet {
		c.look = "ibstat " + text.Shell(p.hca.IBDev)
		c.reason = cmp.Or(downReasons[c.phys], "the port cannot carry traffic; programs use other ports, or TCP")
		return c
	}
	flags, err := strconv.ParseUint(host.sysRead("class/net/"+p.port.Netdev+"/flags"), 0, 32)
	switch {
	case p.port.Netdev == "":
		c.reason = "no network interface of the port is seen here, which may be in the network namespace of a container"
		c.look = "ip -details link"
	case err != nil:
		c.reason = "its network interface is down or has no link: which of the two cannot be read"
		c.look = "ip link show dev NETDEV"
	case flags&unix.IFF_UP == 0:
		c.reason, c.fix, c.look = "its network interface is down", "ip link set NETDEV up", "ip link show dev NETDEV"
	default:
		c.reason = "its network interface is up and has no link: no cable or module, the switch port is off, or the ends " +
			"differ in speed or FEC"
		c.look = "ethtool NETDEV"
	}
	return c
}

// downReasons say why a port of InfiniBand is down, by its physical state.
var downReasons = map[string]string{
	"Disabled": "the port is disabled, by an administrator (ibportstate), the driver or the firmware",
	"Polling":  "the port does not find its peer: no cable, a wrong cable, or the switch port is off",
}

// checkGUIDs finds HCAs that wait for a node GUID. Only mlx4 and mlx5 let an administrator set it: other drivers derive
// it from the MAC, or never set it (EFA; MANA before kernel 6.11). checkDevices reports HCAs whose GUID cannot be read.
func checkGUIDs(f *facts, out *findings) {
	var zero []*rdma.HCA
	var names []string
	for _, h := range f.snap.Usable() {
		problem := slices.ContainsFunc(f.snap.Problems, func(p rdma.Problem) bool { return p.IBDev == h.IBDev })
		if h.NodeGUID == 0 && strings.HasPrefix(h.Driver, "mlx") && !problem {
			zero, names = append(zero, h), append(names, h.IBDev)
		}
	}
	if len(zero) > 0 {
		out.add(foundIn(names, guidZero, finding.Warning, "HCA", " without a node GUID").
			Because("a VF has no GUID until its PF, or the hypervisor of this machine, sets it. Until then an InfiniBand port " +
				"stays down, and rdma_cm does not work on RoCE").
			Do(guidCommands(f.snap, zero[0])...).See("ibstat " + text.Shell(names[0])))
	}
}

// guidCommands returns the commands that configure a VF through its PF, none if the PF is not on this host.
func guidCommands(snap *rdma.Snapshot, h *rdma.HCA) []string {
	if h.VFIndex == nil || h.PCI == nil {
		return nil
	}
	pf := "PF_NETDEV"
	for i := range snap.HCAs {
		p := &snap.HCAs[i]
		isPF := p.Function == rdma.PF && p.PCI != nil && p.PCI.Address == h.PF
		if isPF && p.Port1() != nil && p.Port1().Netdev != "" {
			pf = text.Shell(p.Port1().Netdev)
		}
	}
	set := fmt.Sprintf("ip link set %s vf %d node_guid GUID port_guid GUID", pf, *h.VFIndex)
	if p := h.Port1(); p != nil && p.LinkLayer == rdma.LinkEthernet {
		set = fmt.Sprintf("ip link set %s vf %d mac MAC", pf, *h.VFIndex)
	}
	bind, echo := "/sys/bus/pci/drivers/"+cmp.Or(h.Driver, "mlx5_core")+"/", "echo "+text.Shell(h.PCI.Address)+" > "
	return []string{set, echo + text.Shell(bind+"unbind") + " && " + echo + text.Shell(bind+"bind")}
}

// checkRoCEGIDs finds RoCE ports without an address for RoCE v2 but the kernel's own (fe80::).
func checkRoCEGIDs(f *facts, out *findings) {
	var local, old, hidden []portRef
	seen := 0
	ports, _ := portsOf(f.snap)
	for _, p := range ports {
		if p.hca.Protocol != rdma.ProtocolRoCE || p.port.State != rdma.PortActive {
			continue
		}
		seen++
		if has, _ := rdma.HasAssignedGID(f.host.Sys, p.hca.IBDev, p.port.Number); has {
			continue
		}
		gids, err := rdma.ReadGIDs(f.host.Sys, p.hca.IBDev, p.port.Number)
		switch {
		case err != nil:
			f.host.unseen["addresses (GIDs) of "+p.String()] = err
		case len(gids) == 0 && p.port.Netdev == "":
			hidden = append(hidden, p)
		case slices.ContainsFunc(gids, rdma.GID.Assigned):
			old = append(old, p)
		default:
			local = append(local, p)
		}
	}
	const noGID = " without an assigned RoCE v2 address"
	if len(local) > 0 {
		out.add(foundIn(texts(local), roceNoGID, finding.Warning, "RoCE port", noGID).
			Because("the addresses (GIDs) of a RoCE port come from the IP addresses of its network interface, which has none " +
				"but the kernel's own (fe80::). A container with its own network needs an interface on the same port").
			Do("ip address add ADDRESS/PREFIX dev " + text.Shell(cmp.Or(local[0].port.Netdev, "NETDEV"))))
	}
	if len(old) > 0 {
		out.add(foundIn(texts(old), roceNoGID, finding.Warning, "RoCE port", noGID).
			Because("its addresses (GIDs) are of RoCE v1 only, which no router forwards: the card or its driver is set to it").
			See("grep . " + text.Shell("/sys/class/infiniband/"+old[0].hca.IBDev+"/ports/"+
				strconv.Itoa(old[0].port.Number)+"/gid_attrs/types/0") + "; modinfo -p mlx4_core | grep roce_mode"))
	}
	if len(hidden) > 0 {
		out.add(foundIn(texts(hidden), roceNoGID, finding.Warning, "RoCE port", noGID).
			Because("it has no address (GID) at all, and none of the network interfaces here is its own: it may be in the " +
				"network namespace of a container").
			See("rdma link show " + text.Shell(hidden[0].String())))
	}
	if seen > 0 && len(local)+len(old)+len(hidden) == 0 {
		out.add(roceGIDsOK.Found(finding.OK, text.Count(seen, "RoCE port")+" with an assigned RoCE v2 address"))
	}
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}
