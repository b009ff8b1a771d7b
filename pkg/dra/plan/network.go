package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Network is the network interface that a pod gets with a device.
type Network struct {
	// Mode is one of v1alpha1.NetworkModes, and not v1alpha1.NetworkNone.
	Mode string `json:"mode"`
	// Interface is the name of the interface in the pod.
	Interface string         `json:"interface"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Gateways are the next hops of what the addresses send to other networks, nil for those that IPAM assigns.
	Gateways []netip.Addr `json:"gateways,omitzero"`
	Routes   []Route      `json:"routes,omitempty"`
	// MTU is 0 for the MTU of the HCA's interface.
	MTU int `json:"mtu,omitempty"`
	// IPAM is the name of the configuration that gives addresses, empty for none. It is never
	// v1alpha1.NetworkRailIPAM. IPAMConfig is this configuration at the first Prepare of the claim.
	IPAM       string          `json:"ipam,omitempty"`
	IPAMConfig json.RawMessage `json:"ipamConfig,omitempty"`
}

// Route is a route over the interface.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	// Gateway is invalid for a destination on the link.
	Gateway netip.Addr `json:"gateway,omitzero"`
}

// HCANetwork is what the driver's policy says of an HCA and its network interfaces.
type HCANetwork struct {
	// ResourceName is the resource name under which CNI plugins get the HCA, "" if they do not get it.
	ResourceName string
	// IPAM is the name of the configuration that gives the addresses of the HCA's rail, "" for none.
	IPAM string
	// VLAN is the VLAN of the interfaces, 0 for none.
	VLAN int
}

// Networks is the node's support for the network interfaces of claims.
type Networks struct {
	// IPAM has the configurations that give addresses, by name.
	IPAM map[string]json.RawMessage
	// NoIPAM has the reasons why further configurations give no addresses on this node, by name.
	NoIPAM map[string]error
	// Pools has all subnets that are divided among nodes, by the names of their configurations. Block is invalid where
	// this node has none. What a pool reserves, no claim may name, whatever its class allows.
	Pools map[string]blocks.Block
	// HCAs has the settings of each HCA in the driver's policy, by the name of the HCA.
	HCAs map[string]HCANetwork
	// Others are the other prepared claims of the claim's pods.
	Others []*Plan

	made *Plan // the plan of an earlier Prepare of the claim
}

var (
	errNoNetworks = errors.New("this node's driver attaches no network interfaces: it needs --attach-interfaces " +
		"(chart value network.enabled)")
	errShare = errors.New("move takes the HCA's interface away from all others, and the device is a share or " +
		"access for monitoring: use mode macvlan or ipvlan, or request an HCA for this claim alone")
	errMoveVLAN = errors.New("move gives the HCA's own interface, and a VLAN is on top of it: " +
		"use mode macvlan or ipvlan")
	errGroup    = errors.New("a group has several HCAs, and an interface is of one: request its HCAs by themselves")
	errModeless = errors.New("the mode is none, so that nothing is attached: set network.mode")
)

// network returns the merged configuration of a device's network interface, nil for none.
func (w *words) network(d Device, facts Facts) (*Network, error) {
	set := w.defaults.Network
	set.Overlay(w.requested.Network)
	path := field.NewPath("network")
	if set.Mode == "" || set.Mode == v1alpha1.NetworkNone || d.AdminAccess {
		if set.Mode == "" && !reflect.ValueOf(w.requested.Network).IsZero() {
			return nil, fmt.Errorf("%s: %w", path, errModeless)
		}
		return nil, nil
	}
	n, err := newNetwork(set)
	if err == nil {
		err = n.checkDevice(d)
	}
	if err == nil {
		err = n.resolve(d, facts.Networks)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// newNetwork parses settings that were validated before.
func newNetwork(set v1alpha1.Network) (*Network, error) {
	n := &Network{Mode: set.Mode, Interface: set.Interface, IPAM: set.IPAM}
	if set.MTU != nil {
		n.MTU = *set.MTU
	}
	for _, s := range set.Addresses {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		n.Addresses = append(n.Addresses, p)
	}
	if set.Gateways != nil {
		n.Gateways = []netip.Addr{}
	}
	for _, s := range set.Gateways {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, err
		}
		if err := n.reaches(a); err != nil {
			return nil, err
		}
		n.Gateways = append(n.Gateways, a)
	}
	for _, r := range set.Routes {
		to, err := netip.ParsePrefix(r.Destination)
		if err != nil {
			return nil, err
		}
		var via netip.Addr
		if r.Gateway != "" {
			if via, err = netip.ParseAddr(r.Gateway); err != nil {
				return nil, err
			}
		}
		n.Routes = append(n.Routes, Route{to, via})
	}
	return n, nil
}

// reaches returns an error if a gateway is in no network of the addresses. The addresses of IPAM are not known yet.
func (n *Network) reaches(gateway netip.Addr) error {
	in := func(p netip.Prefix) bool { return p.Contains(gateway) }
	if n.IPAM != "" || gateway.Is6() && gateway.IsLinkLocalUnicast() || slices.ContainsFunc(n.Addresses, in) {
		return nil
	}
	return fmt.Errorf("gateways: %s is in no network of network.addresses: name one that the interface can reach", gateway)
}

// ModeRefused returns the reason why a device cannot have an interface of a mode, for every state of the host's
// interface. resourceName is the resource name under which CNI plugins get the HCA, "" if they do not get it. vlan is
// the VLAN of the interface, 0 for none.
func ModeRefused(mode string, alone bool, resourceName string, vlan int) error {
	switch {
	case mode == v1alpha1.NetworkMove && !alone:
		return errShare
	case mode == v1alpha1.NetworkMove && vlan != 0:
		return errMoveVLAN
	case resourceName != "":
		return fmt.Errorf("the driver's policy gives the device to CNI plugins as %s (resourceName of its rule): "+
			"one of the two would take the interface from the other; "+
			"leave network out of the claim, or resourceName out of the rule", resourceName)
	}
	return nil
}

// checkDevice returns an error if a device cannot have such an interface.
func (n *Network) checkDevice(d Device) error {
	refused := ModeRefused(n.Mode, d.alone(), "", d.VLAN)
	switch {
	case devicename.Parse(d.Device).Group != "":
		return errGroup
	case refused != nil:
		return refused
	}
	return nil
}

// resolve adds what the interface needs of the node: the configuration of its IPAM. It returns an error if the node
// cannot provide the interface.
func (n *Network) resolve(d Device, node *Networks) error {
	if node == nil {
		return errNoNetworks
	}
	hca := devicename.Parse(d.Device).HCA
	if err := ModeRefused(n.Mode, d.alone(), node.HCAs[hca].ResourceName, d.VLAN); err != nil {
		return err
	}
	if err := node.checkAddresses(n.Addresses); err != nil {
		return err
	}
	if n.IPAM == v1alpha1.NetworkRailIPAM {
		if n.IPAM = node.railIPAM(d); n.IPAM == "" {
			return fmt.Errorf("ipam: %s: the rule of HCA %s in the driver's policy on this node names no ipam: "+
				"set ipam or railIPAM there, or name an entry in the claim", v1alpha1.NetworkRailIPAM, hca)
		}
	}
	if n.IPAM == "" {
		return nil
	}
	var ok bool
	if n.IPAMConfig, ok = node.IPAM[n.IPAM]; ok {
		return nil
	}
	if err := node.NoIPAM[n.IPAM]; err != nil {
		return fmt.Errorf("ipam %s: %w", n.IPAM, err)
	}
	return fmt.Errorf("ipam: the driver's policy on this node has no entry %q under ipam", n.IPAM)
}

// checkAddresses returns an error if a pool reserves one of the addresses that a claim or its class names. The addresses
// of a claim that was prepared before are not checked again: its pod may run. An address of the node's own block that
// another pod has is refused when the pod starts, because only the records of that time say who has it.
func (n *Networks) checkAddresses(addresses []netip.Prefix) error {
	for i, address := range addresses {
		for _, name := range slices.Sorted(maps.Keys(n.Pools)) {
			pool := n.Pools[name]
			err := pool.Reserved(address.Addr())
			if err == nil {
				continue
			}
			if none := n.NoIPAM[name]; none != nil && !pool.Block.IsValid() {
				err = fmt.Errorf("%w (%w)", err, none)
			}
			return fmt.Errorf("addresses[%d]: ipam %s reserves %s: %w; name an address outside of %s, or request one by "+
				"network.ipam", i, name, address, err, pool.Subnet)
		}
	}
	return nil
}

// railIPAM returns the name of the configuration of a device's rail, "" for none. A claim that was prepared before
// keeps that of its existing plan.
func (n *Networks) railIPAM(d Device) string {
	if n.made == nil {
		return n.HCAs[devicename.Parse(d.Device).HCA].IPAM
	}
	if m := n.madeNetwork(d); m != nil {
		return m.IPAM
	}
	return ""
}

// nameInterfaces names the interfaces of a plan. It returns an error if names or addresses conflict within the plan, or
// names conflict with the other claims of its pods.
func (p *Plan) nameInterfaces(node *Networks) error {
	if !p.HasNetwork() {
		return nil
	}
	names, addresses := node.taken(p), map[netip.Addr]bool{}
	for _, d := range p.Devices {
		if d.Network != nil && d.Network.Interface != "" {
			switch by := names[d.Network.Interface]; by {
			case "":
				names[d.Network.Interface] = p.Claim()
			case p.Claim():
				return fmt.Errorf("network.interface: two devices of the claim would be %s in the pod: leave the field out, or configure each request by itself", d.Network.Interface)
			default:
				return fmt.Errorf("network.interface: claim %s has %s in the same pod: leave the field out, or choose another name", by, d.Network.Interface)
			}
		}
	}
	next := 0
	for _, d := range p.Devices {
		if d.Network == nil {
			continue
		}
		d.Network.Interface = cmp.Or(d.Network.Interface, node.madeName(d))
		for d.Network.Interface == "" {
			if name := fmt.Sprintf("rdma%d", next); names[name] == "" {
				d.Network.Interface = name
			}
			next++
		}
		for _, a := range d.Network.Addresses {
			if addresses[a.Addr()] {
				return fmt.Errorf("network.addresses: two devices of the claim would have %s: configure each request by itself, or use ipam", a.Addr())
			}
			addresses[a.Addr()] = true
		}
	}
	return nil
}

// Clash returns an error if interfaces of two claims of a pod have the same name. This can happen because the names
// were given before it was known that both claims belong to the pod.
func Clash(plans []*Plan) error {
	names := map[string]*Plan{}
	for _, p := range plans {
		for _, d := range p.Devices {
			if d.Network == nil {
				continue
			}
			if by := names[d.Network.Interface]; by != nil && by != p {
				return fmt.Errorf("network interfaces of claims %s and %s both have %s as their name in the pod, and a claim that pods share keeps its name: set network.interface in one of them",
					by.Claim(), p.Claim(), d.Network.Interface)
			}
			names[d.Network.Interface] = p
		}
	}
	return nil
}

// taken returns the names of the interfaces that other claims have in the pods of a plan, each with its claim. For a
// claim that was prepared before it returns none: its names are fixed.
func (n *Networks) taken(p *Plan) map[string]string {
	names := map[string]string{}
	if n == nil || n.made != nil {
		return names
	}
	for _, other := range n.Others {
		for _, d := range other.Devices {
			if d.Network != nil {
				names[d.Network.Interface] = other.Claim()
			}
		}
	}
	return names
}

// madeName returns the name of a device's interface in the existing plan of its claim, "" if there is none.
func (n *Networks) madeName(d Device) string {
	if m := n.madeNetwork(d); m != nil {
		return m.Interface
	}
	return ""
}

// madeNetwork returns the network of a device in the existing plan of its claim, nil if there is none.
func (n *Networks) madeNetwork(d Device) *Network {
	if n == nil {
		return nil
	}
	return madeDevice(n.made, d).Network
}

// InterfaceAlias returns the alias that the kernel has for the interface of a device while a pod has it. The hook uses
// the alias to tell the interface from others of the same name.
func (p *Plan) InterfaceAlias(d Device) string {
	return rdma.Domain + "/claim/" + string(p.UID) + "/" + d.Device
}

// withPrepared returns the networks that an existing plan was made from.
func (n *Networks) withPrepared(made *Plan) *Networks {
	configs, hcas := map[string]json.RawMessage{}, map[string]HCANetwork{}
	has := n != nil
	for _, d := range made.Devices {
		for _, hca := range d.HCAs() {
			hcas[hca], has = HCANetwork{VLAN: d.VLAN}, has || d.VLAN != 0
		}
		if d.Network != nil {
			configs[d.Network.IPAM], has = d.Network.IPAMConfig, true
		}
	}
	if !has {
		return n
	}
	return &Networks{IPAM: configs, HCAs: hcas, made: made}
}
