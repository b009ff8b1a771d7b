package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// portRef is a port with its HCA.
type portRef struct {
	hca  *rdma.HCA
	port *rdma.Port
}

func (p portRef) String() string { return fmt.Sprintf("%s/%d", p.hca.IBDev, p.port.Number) }

// ports lists the ports of usable HCAs that carry traffic and have a known state.
func (f *facts) ports() []portRef {
	var refs []portRef
	for _, h := range f.snap.Usable() {
		for p := range h.OwnPorts() {
			if p.State != "" {
				refs = append(refs, portRef{h, p})
			}
		}
	}
	return refs
}

// checkPorts checks the state of the ports.
func checkPorts(f *facts, out *findings) {
	down := map[string][]portRef{} // by physical state
	var starting []portRef
	active := 0
	ports := f.ports()
	for _, p := range ports {
		switch {
		case p.port.State == rdma.PortActive || p.port.State == rdma.PortActiveDefer:
			active++
		case p.port.LinkLayer == rdma.LinkInfiniBand && (p.port.State == rdma.PortInit || p.port.State == rdma.PortArmed):
			starting = append(starting, p)
		default:
			down[p.port.PhysState] = append(down[p.port.PhysState], p)
		}
	}
	if len(ports) > 0 && active == 0 {
		out.add(found("no-active-port", Error, "no port of this host is ACTIVE").
			because("no RDMA traffic leaves this host").
			fix("cdi-gen list", "rdma link"))
	}
	for _, phys := range slices.Sorted(maps.Keys(down)) {
		out.add(portDown(phys, down[phys]))
	}
	if len(starting) > 0 {
		out.add(foundIn(texts(starting), "port-init", Warning, "port", " without a subnet manager").
			because("the link is up, but no subnet manager has given the port an address (LID) and made it ACTIVE; "+
				"a VF without a GUID stays in this state").
			fix("sminfo -C "+text.Shell(starting[0].hca.IBDev), "systemctl status opensm"))
	}
	if len(ports) > 0 && active == len(ports) {
		out.add(found("ports-ok", OK, text.Count(len(ports), "port")+" ACTIVE"))
	}
}

// portDown returns the finding for ports that are down with the same physical state.
func portDown(phys string, ports []portRef) Finding {
	netdev := ""
	for _, p := range ports {
		netdev = cmp.Or(netdev, p.port.Netdev)
	}
	command := "ibstat " + text.Shell(ports[0].hca.IBDev)
	if netdev != "" {
		command = "ip link set " + text.Shell(netdev) + " up && ethtool " + text.Shell(netdev)
	}
	return foundIn(texts(ports), "port-down", Warning, "port", " down ("+cmp.Or(phys, "physical state unknown")+")").
		because("%s", cmp.Or(downReasons[phys], "the port cannot carry traffic; programs use other ports, or TCP")).
		fix(command)
}

// downReasons say why a port is down, by its physical state.
var downReasons = map[string]string{
	"Disabled": "the port is disabled: its network interface is down, or an administrator disabled it",
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
		out.add(foundIn(names, "guid-zero", Warning, "HCA", " without a node GUID").
			because("a VF has no GUID until its PF, or the hypervisor of this machine, sets it. Until then an InfiniBand port " +
				"stays down, and rdma_cm does not work on RoCE").
			fix(f.guidCommands(zero[0])...))
	}
}

// guidCommands returns the commands that configure a VF through its PF, if the PF is on this host.
func (f *facts) guidCommands(h *rdma.HCA) []string {
	if h.VFIndex == nil || h.PCI == nil {
		return []string{"ibstat " + text.Shell(h.IBDev)}
	}
	pf := "PF_NETDEV"
	for i := range f.snap.HCAs {
		p := &f.snap.HCAs[i]
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

// checkRoCEGIDs finds RoCE ports that cannot be reached over a router.
func checkRoCEGIDs(f *facts, out *findings) {
	var without []portRef
	seen := 0
	for _, p := range f.ports() {
		if p.hca.Protocol != rdma.ProtocolRoCE || p.port.State != rdma.PortActive {
			continue
		}
		seen++
		if routable, _ := rdma.HasRoutableGID(f.host.Sys, p.hca.IBDev, p.port.Number); !routable {
			without = append(without, p)
		}
	}
	switch {
	case len(without) > 0:
		out.add(foundIn(texts(without), "roce-no-gid", Warning, "RoCE port", " without a routable RoCE v2 address").
			because("the addresses (GIDs) of a RoCE port come from the IP addresses of its network interface, which has only " +
				"a link-local one. A container with its own network needs an interface on the same port").
			fix("ip address add ADDRESS/PREFIX dev " + text.Shell(cmp.Or(without[0].port.Netdev, "NETDEV"))))
	case seen > 0:
		out.add(found("roce-gids-ok", OK, text.Count(seen, "RoCE port")+" with a routable RoCE v2 address"))
	}
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}
