package podnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// IPAM gets addresses from CNI plugins: host-local, static, whereabouts and others. They run as child processes, in the
// host's network.
type IPAM struct {
	// Dir holds the plugins.
	Dir string
	// Owner and a hyphen begin the name of each network that plugins hear: they keep its addresses apart by it.
	Owner string
	// Patience is how long a plugin may take, 0 for DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is longer than a container runtime waits by default for a pod's start. So callers must not hold a
// lock that other pods need.
const DefaultPatience = 10 * time.Second

// Lease identifies the addresses of one interface. Callers must not add a lease twice: some plugins refuse until it is
// deleted.
type Lease struct {
	// Network is the name of the configuration, and Config the configuration: the section
	// "ipam" of a CNI configuration, whose "type" is the plugin.
	Network string          `json:"network"`
	Config  json.RawMessage `json:"config"`
	// Container identifies the owner, and Interface is the name of the interface there.
	Container string `json:"container"`
	Netns     string `json:"netns"`
	Interface string `json:"interface"`
}

// cniVersion is the version of the CNI protocol.
const cniVersion = "1.0.0"

// Answer is what a plugin gives. Gateways are the next hops that belong to the addresses, at most one of each IP
// family, and only those that the interface can reach.
type Answer struct {
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	Routes    []Route
}

// Add asks a plugin for addresses.
func (i *IPAM) Add(ctx context.Context, l Lease) (a Answer, err error) {
	plugin, conf, err := i.find(l)
	if err != nil {
		return a, err
	}
	result, err := invoke.ExecPluginWithResult(ctx, plugin, conf, l.args("ADD", i.Dir), i.exec())
	if err == nil {
		a, err = read(result)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("get an address of ipam %q by CNI plugin %q: %w", l.Network, plugin, err)
	}
	return a, nil
}

// Del releases the addresses of Add. It is idempotent: plugins ignore unknown leases.
func (i *IPAM) Del(ctx context.Context, l Lease) error {
	plugin, conf, err := i.find(l)
	if err == nil {
		err = invoke.ExecPluginWithoutResult(ctx, plugin, conf, l.args("DEL", i.Dir), i.exec())
	}
	if err != nil {
		return fmt.Errorf("release the address of ipam %q: %w", l.Network, err)
	}
	return nil
}

// find returns the plugin of a lease and its configuration.
func (i *IPAM) find(l Lease) (plugin string, conf []byte, err error) {
	name, err := PluginOf(l.Config)
	if err == nil && i.Dir == "" {
		err = errors.New("the driver has no directory of CNI plugins: set --cni-bin-dir (chart value hostPaths.cniBin)")
	}
	if err != nil {
		return "", nil, fmt.Errorf("ipam %q: %w", l.Network, err)
	}
	if plugin, err = invoke.FindInPath(name, []string{i.Dir}); err != nil {
		return "", nil, fmt.Errorf("ipam %q: %w; install the CNI plugin on the node, or name its directory (--cni-bin-dir)",
			l.Network, err)
	}
	conf, err = json.Marshal(map[string]any{
		"cniVersion": cniVersion, "name": i.Owner + "-" + l.Network, "type": name, "ipam": l.Config,
	})
	return plugin, conf, err
}

// PluginOf returns the plugin that a section "ipam" names.
func PluginOf(config json.RawMessage) (string, error) {
	var c struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return "", fmt.Errorf("read its configuration: %w", err)
	}
	if c.Type == "" {
		return "", errors.New("its configuration has no type, which is the name of a CNI plugin, such as host-local")
	}
	return c.Type, nil
}

func (l *Lease) args(command, dir string) *invoke.Args {
	return &invoke.Args{Command: command, ContainerID: l.Container, NetNS: l.Netns, IfName: l.Interface, Path: dir}
}

// What a plugin may give to one interface, since each takes a request to the kernel.
const maxAddresses, maxRoutes = 32, 256

func read(result types.Result) (a Answer, err error) {
	r, err := types100.NewResultFromResult(result)
	if err != nil {
		return a, err
	}
	switch {
	case len(r.IPs) == 0:
		return a, errors.New("it gave no address")
	case len(r.IPs) > maxAddresses, len(r.Routes) > maxRoutes:
		return a, fmt.Errorf("it gave %d addresses and %d routes: an interface can have %d and %d",
			len(r.IPs), len(r.Routes), maxAddresses, maxRoutes)
	}
	gateways := map[bool]netip.Addr{} // by family: a route without a gateway uses that of the address
	for _, ip := range r.IPs {
		p, err := prefix(ip.Address)
		if err != nil {
			return a, err
		}
		a.Addresses = append(a.Addresses, p)
		via, ok := netip.AddrFromSlice(ip.Gateway)
		if _, has := gateways[p.Addr().Is4()]; ok && !has {
			via = via.Unmap()
			gateways[p.Addr().Is4()] = via
			if p.Contains(via) || via.IsLinkLocalUnicast() && via.Is6() {
				a.Gateways = append(a.Gateways, via)
			}
		}
	}
	for _, route := range r.Routes {
		to, err := prefix(route.Dst)
		if err != nil {
			return a, err
		}
		via, ok := netip.AddrFromSlice(route.GW)
		if !ok {
			via = gateways[to.Addr().Is4()]
		}
		a.Routes = append(a.Routes, Route{to, via.Unmap()})
	}
	return a, nil
}

func prefix(n net.IPNet) (netip.Prefix, error) {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	p := netip.PrefixFrom(addr.Unmap(), ones)
	if !ok || !p.IsValid() {
		return p, fmt.Errorf("it gave %s, which is not an address with a prefix length", n.String())
	}
	return p, nil
}
