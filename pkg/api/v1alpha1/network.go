package v1alpha1

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Network configures how the HCA's network interface gets into the pod's network namespace. An unset
// field keeps the value of the next level. Addresses and ipam count as one field.
type Network struct {
	// Mode is one of none, move for the HCA's own interface, and macvlan or ipvlan for a new one on top
	// of it. An ipvlan has the hardware address of the HCA's interface. Defaults to none.
	Mode string `json:"mode,omitempty" jsonschema:"enum=none,enum=move,enum=macvlan,enum=ipvlan"`
	// VLAN is the VLAN of a macvlan or ipvlan, 1 to 4094. All claims on one HCA must have the same.
	// Defaults to that of the rule of the policy, or none.
	VLAN *int `json:"vlan,omitempty" jsonschema:"minimum=1,maximum=4094"`
	// Interface is the interface's name in the pod. Defaults to rdma0, rdma1, ... in the order of the
	// pod's claims and their devices.
	Interface string `json:"interface,omitempty"`
	// Addresses are the interface's addresses, each with a prefix length: 10.1.2.3/24.
	Addresses []string `json:"addresses,omitempty"`
	// IPAM is the name of an entry of "ipam" in the policy, which assigns the
	// addresses. The name rail stands for the entry of the HCA's rule: each HCA of a request gets an address of its
	// own rail.
	IPAM string `json:"ipam,omitempty"`
	// MTU is the interface's largest packet, 68 to 65535. Defaults to that of the HCA's interface.
	MTU *int `json:"mtu,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// Gateways are the next hops of what the interface's addresses send to other networks, one for each
	// IP family. The pod's default route stays as it is. Defaults to the gateways that ipam assigns.
	Gateways []string `json:"gateways,omitempty"`
	// Routes are the pod's routes through the interface.
	Routes []Route `json:"routes,omitempty"`
}

// Route is a route of the pod through the interface.
type Route struct {
	// Destination is a network: 10.2.0.0/16.
	Destination string `json:"destination" jsonschema:"required"`
	// Gateway is the next hop. Defaults to none, for destinations on the link.
	Gateway string `json:"gateway,omitempty"`
}

// AllowNetwork bounds the network of a claim. An unset field allows nothing, because an
// interface on the fabric gives a pod more access than it has otherwise.
type AllowNetwork struct {
	// Modes are the modes that a claim may request besides none.
	Modes []string `json:"modes,omitempty" jsonschema:"uniqueItems=true,enum=none,enum=move,enum=macvlan,enum=ipvlan"`
	// VLANs are the VLANs that a claim may request.
	VLANs []int `json:"vlans,omitempty" jsonschema:"maxItems=64"`
	// Addresses are the networks from which a claim may choose addresses.
	Addresses []string `json:"addresses,omitempty"`
	// IPAM are the names that a claim may request. The name rail allows the entries of the HCAs' rules.
	IPAM []string `json:"ipam,omitempty"`
	// MTUMax is the largest MTU that a claim may request, 68 to 65535.
	MTUMax *int `json:"mtuMax,omitempty" jsonschema:"minimum=68,maximum=65535"`
	// Gateways are the networks from which a claim may choose gateways.
	Gateways []string `json:"gateways,omitempty"`
	// Routes are the networks to which a claim may have routes. A route to a part of such a network is allowed too.
	// 0.0.0.0/0 lets the claim take over the pod's default route.
	Routes []string `json:"routes,omitempty"`
}

// The bounds of a VLAN.
const (
	MinVLAN = 1
	MaxVLAN = 4094
)

// The modes.
const (
	NetworkNone    = "none"
	NetworkMove    = "move"
	NetworkMacvlan = "macvlan"
	NetworkIpvlan  = "ipvlan"
)

// NetworkRailIPAM is the value of ipam that stands for the entry of the HCA's rule in the policy.
const NetworkRailIPAM = "rail"

// NetworkModes are all modes.
var NetworkModes = []string{NetworkNone, NetworkMove, NetworkMacvlan, NetworkIpvlan}

// The bounds of a claim's lists and MTU.
const (
	maxAddresses = 16
	maxGateways  = 2
	maxRoutes    = 32
	minMTU       = 68
	maxMTU       = 65535
)

func (n *Network) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.Mode != "" && !slices.Contains(NetworkModes, n.Mode) {
		errs = append(errs, field.NotSupported(path.Child("mode"), n.Mode, NetworkModes))
	}
	if n.VLAN != nil {
		errs = append(errs, validateVLAN(*n.VLAN, path.Child("vlan"))...)
	}
	if n.Interface != "" {
		if err := checkInterface(n.Interface); err != nil {
			errs = append(errs, field.Invalid(path.Child("interface"), n.Interface, err.Error()))
		}
	}
	errs = append(errs, validateMTU(n.MTU, path.Child("mtu"))...)
	if len(n.Addresses) > 0 && n.IPAM != "" {
		errs = append(errs, field.Forbidden(path.Child("ipam"), "addresses are given already: want one of the two"))
	}
	errs = append(errs, validatePrefixes(n.Addresses, maxAddresses, path.Child("addresses"))...)
	errs = append(errs, validateGateways(n.Gateways, path.Child("gateways"))...)
	return append(errs, validateRoutes(n.Routes, path.Child("routes"))...)
}

func validateMTU(mtu *int, path *field.Path) field.ErrorList {
	if mtu == nil || *mtu >= minMTU && *mtu <= maxMTU {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *mtu, fmt.Sprintf("want %d to %d", minMTU, maxMTU))}
}

func validateVLAN(vlan int, path *field.Path) field.ErrorList {
	if vlan >= MinVLAN && vlan <= MaxVLAN {
		return nil
	}
	return field.ErrorList{field.Invalid(path, vlan, fmt.Sprintf("want %d to %d", MinVLAN, MaxVLAN))}
}

// checkInterface returns why a name is not usable for a pod's interface.
func checkInterface(name string) error {
	foreign := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	reserved := []string{"lo", "eth0", "all", "default"} // the last two have a meaning in sysctl
	switch {
	case len(name) > 15 || strings.ContainsFunc(name, foreign) || name == "." || name == "..":
		return fmt.Errorf("want a name of an interface: up to 15 letters, digits and . _ -")
	case slices.Contains(reserved, name), strings.HasPrefix(name, "_rdma"): // the driver's temporary names
		return fmt.Errorf("the pod has it already, or the kernel means something else by it")
	}
	return nil
}

func validatePrefixes(list []string, most int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > most {
		errs = append(errs, field.TooMany(path, len(list), most))
	}
	for i, s := range list {
		if _, err := parsePrefix(s); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), s, err.Error()))
		}
		if slices.Contains(list[:i], s) {
			errs = append(errs, field.Duplicate(path.Index(i), s))
		}
	}
	return errs
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("want an IP address with a prefix length, such as 10.1.2.3/24 or fd00::1/64")
	}
	return p, nil
}

func validateGateways(gateways []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(gateways) > maxGateways {
		errs = append(errs, field.TooMany(path, len(gateways), maxGateways))
	}
	families := map[bool]bool{}
	for i, s := range gateways {
		a, err := parseAddr(s)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), s, err.Error()))
		case families[a.Is4()]:
			errs = append(errs, field.Invalid(path.Index(i), s, "want one gateway for each IP family"))
		}
		families[a.Is4()] = true
	}
	return errs
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return a, fmt.Errorf("want an IP address, such as 10.1.2.1 or fd00::1")
	}
	return a, nil
}

func validateRoutes(routes []Route, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(routes) > maxRoutes {
		errs = append(errs, field.TooMany(path, len(routes), maxRoutes))
	}
	for i, r := range routes {
		to, err := parsePrefix(r.Destination)
		if err == nil && to != to.Masked() {
			err = fmt.Errorf("it has bits beyond its length: want %s", to.Masked())
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("destination"), r.Destination, err.Error()))
			continue
		}
		if r.Gateway == "" {
			continue
		}
		via, err := parseAddr(r.Gateway)
		if err != nil || via.Is4() != to.Addr().Is4() {
			errs = append(errs, field.Invalid(path.Index(i).Child("gateway"), r.Gateway,
				"want an IP address of the destination's family"))
		}
	}
	return errs
}

func (a *AllowNetwork) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, m := range a.Modes {
		if !slices.Contains(NetworkModes, m) {
			errs = append(errs, field.NotSupported(path.Child("modes").Index(i), m, NetworkModes))
		}
	}
	const most = 64
	if len(a.VLANs) > most {
		errs = append(errs, field.TooMany(path.Child("vlans"), len(a.VLANs), most))
	}
	for i, vlan := range a.VLANs {
		errs = append(errs, validateVLAN(vlan, path.Child("vlans").Index(i))...)
	}
	errs = append(errs, validateMTU(a.MTUMax, path.Child("mtuMax"))...)
	errs = append(errs, validatePrefixes(a.Addresses, most, path.Child("addresses"))...)
	errs = append(errs, validatePrefixes(a.Gateways, most, path.Child("gateways"))...)
	return append(errs, validatePrefixes(a.Routes, most, path.Child("routes"))...)
}

// check returns an error for each part of a network that is not allowed. Both must be valid.
func (a *AllowNetwork) check(n Network, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(at *field.Path, what, by string) {
		errs = append(errs, field.Forbidden(at, what+" is more than the DeviceClass allows: "+
			"its HCAClassConfig lists what is allowed under allow.network."+by))
	}
	if n.Mode != "" && n.Mode != NetworkNone && !slices.Contains(a.Modes, n.Mode) {
		forbid(path.Child("mode"), n.Mode, "modes")
	}
	if n.VLAN != nil && !slices.Contains(a.VLANs, *n.VLAN) {
		forbid(path.Child("vlan"), fmt.Sprint(*n.VLAN), "vlans")
	}
	if n.MTU != nil && (a.MTUMax == nil || *n.MTU > *a.MTUMax) {
		forbid(path.Child("mtu"), fmt.Sprint(*n.MTU), "mtuMax")
	}
	if n.IPAM != "" && !slices.Contains(a.IPAM, n.IPAM) {
		forbid(path.Child("ipam"), n.IPAM, "ipam")
	}
	for i, s := range n.Addresses {
		if !within(s, a.Addresses) {
			forbid(path.Child("addresses").Index(i), s, "addresses")
		}
	}
	for i, s := range n.Gateways {
		if ip, err := parseAddr(s); err != nil || !within(netip.PrefixFrom(ip, ip.BitLen()).String(), a.Gateways) {
			forbid(path.Child("gateways").Index(i), s, "gateways")
		}
	}
	for i, r := range n.Routes {
		if !within(r.Destination, a.Routes) {
			forbid(path.Child("routes").Index(i), r.Destination, "routes")
		}
	}
	return errs
}

// within reports whether one of the networks contains the whole network of a prefix. An
// address with a short length brings a route to its whole network.
func within(s string, networks []string) bool {
	p, err := parsePrefix(s)
	return err == nil && slices.ContainsFunc(networks, func(o string) bool {
		n, err := parsePrefix(o)
		return err == nil && n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}
