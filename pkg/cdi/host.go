package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NameStrategy is a way to name the HCAs of a host in a spec.
type NameStrategy string

// The name strategies. A device is listed once for each strategy in use.
const (
	// NameIBDev is the kernel's name, mlx5_0: what people type, but it follows
	// probe order.
	NameIBDev NameStrategy = "ibdev"
	// NamePCI is the slot, pci-0000-3b-00-0: it stays over reboots. It is written
	// this way because names that start with a digit need CDI 0.5.0.
	NamePCI NameStrategy = "pci"
	// NameGUID is the node GUID, guid-a088c203003f1a2b: it stays with the card.
	NameGUID NameStrategy = "guid"
	// NameNetdev is the network interface of the first port, net-ens1f0np0.
	NameNetdev NameStrategy = "netdev"
)

// NameStrategies lists all strategies, and DefaultNames those that every HCA has.
var (
	NameStrategies = []NameStrategy{NameIBDev, NamePCI, NameGUID, NameNetdev}
	DefaultNames   = []NameStrategy{NameIBDev, NamePCI}
)

// ParseNameStrategy checks the name of a strategy.
func ParseNameStrategy(s string) (NameStrategy, error) {
	if n := NameStrategy(s); slices.Contains(NameStrategies, n) {
		return n, nil
	}
	return "", fmt.Errorf("unknown name strategy %q: want ibdev, pci, guid or netdev", s)
}

// AllDevice is the name of the device that stands for all HCAs of a spec.
const AllDevice = "all"

// HostOptions say how the HCAs of a host go into its spec.
type HostOptions struct {
	// Names are the strategies, at least one.
	Names []NameStrategy
	// Nodes are the node classes that devices give. MAD and SM are given by devices
	// of their own, <name>-mad and <name>-sm, so that a container gets them only by
	// asking for them: nobody who asks for an HCA, or for all, has them in hand.
	Nodes []NodeClass
	// NoAll leaves out the device named all.
	NoAll bool
	// Env, Mounts and Hook are given to every device.
	Env    []string
	Mounts []Mount
	Hook   *Hook
	// Limit is what a container may use of each HCA that it is given. Its IBDev is
	// empty here.
	Limit Limit
}

// limits returns the limits of a device that gives an HCA.
func (o *HostOptions) limits(h *rdma.HCA) []Limit {
	if o.Limit == (Limit{}) {
		return nil
	}
	return []Limit{{IBDev: h.IBDev, Handles: o.Limit.Handles, Objects: o.Limit.Objects}}
}

// device makes a device with what all of them have.
func (o *HostOptions) device(name string, nodes []rdma.Node) Device {
	return Device{Name: name, Nodes: nodes, Env: o.Env, Mounts: o.Mounts, Hook: o.Hook}
}

// ErrNoDevices means that a host has no HCA that a container can be given.
var ErrNoDevices = errors.New("no RDMA device that a container can be given")

// ErrNoneListed means that a host has such HCAs, and that the names and nodes that were
// chosen make no device of any of them.
var ErrNoneListed = errors.New("the chosen names and nodes make no device of the host's HCAs")

// ErrNoMatch means that a pattern of Select stands for no HCA of the host.
var ErrNoMatch = errors.New("no device matches")

// Select returns the HCAs that the patterns choose: all, or those that a pattern
// of only matches, less those that a pattern of exclude matches. A pattern
// (path.Match) is for any of the names that an HCA can be listed by, or for the PCI
// address, which does not stand for the subfunctions on it. A pattern that matches nothing is
// ErrNoMatch: who names a device wants it, or wants it kept from containers.
func Select(hcas []rdma.HCA, only, exclude []string) ([]rdma.HCA, error) {
	chosen, withheld := map[string]bool{}, map[string]bool{}
	out := make([]rdma.HCA, 0, len(hcas))
	for i := range hcas {
		in, err := matchAny(&hcas[i], only, chosen)
		if err != nil {
			return nil, err
		}
		outside, err := matchAny(&hcas[i], exclude, withheld)
		if err != nil {
			return nil, err
		}
		if (in || len(only) == 0) && !outside {
			out = append(out, hcas[i])
		}
	}
	return out, errors.Join(unmatched(only, chosen, hcas), unmatched(exclude, withheld, hcas))
}

// unmatched says which pattern is the first that no HCA matched.
func unmatched(patterns []string, matched map[string]bool, hcas []rdma.HCA) error {
	for _, p := range patterns {
		if !matched[p] {
			return fmt.Errorf("%w %q: have %s", ErrNoMatch, p, listNames(hcas))
		}
	}
	return nil
}

// maxListed is how many names an error lists.
const maxListed = 16

func listNames(hcas []rdma.HCA) string {
	if len(hcas) == 0 {
		return "none"
	}
	names := make([]string, 0, maxListed)
	for _, h := range hcas[:min(len(hcas), maxListed)] {
		names = append(names, h.IBDev)
	}
	list := strings.Join(names, ", ")
	if more := len(hcas) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// matchAny reports whether a pattern matches one of the names of h, and notes
// which patterns did.
func matchAny(h *rdma.HCA, patterns []string, used map[string]bool) (bool, error) {
	names := namesOf(h, NameStrategies)
	if h.Identity.PCI != "" && h.Identity.SF == nil {
		names = append(names, h.Identity.PCI)
	}
	matched := false
	for _, p := range patterns {
		for _, name := range names {
			ok, err := path.Match(p, name)
			if err != nil {
				return false, fmt.Errorf("match devices with %q: %w", p, err)
			}
			if ok {
				matched, used[p] = true, true
			}
		}
	}
	return matched, nil
}

// HostDevices makes the devices of a host's spec. It returns the devices that it could make
// together with the reasons why it left others out. When nothing is left, ErrNoDevices is among
// them, or ErrNoneListed where other options would make devices. What it returns can stand in one
// spec: a device that cannot costs no other one. A management-only device beside a usable one is
// left out without a reason: it is no device for containers.
func HostDevices(snap *rdma.Snapshot, opt HostOptions) ([]Device, error) {
	var errs []error
	var devices []Device
	all := opt.device(AllDevice, nil)
	names := newNamer(snap, &opt)
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		if managementOnly(h, snap.HCAs) {
			continue
		}
		nodes, err := opt.ownNodes(h, snap.RDMACM)
		if err == nil {
			err = opt.checkEdits(h, nodes)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		own, err := opt.devicesOf(h, names, nodes)
		errs = append(errs, err)
		devices = append(devices, own...)
		if len(nodes) > 0 {
			all.Nodes = append(all.Nodes, nodes...)
			all.Limits = append(all.Limits, opt.limits(h)...)
		}
	}
	errs = append(errs, opt.missing(snap))
	if len(devices) == 0 {
		return nil, errors.Join(append(errs, none(snap))...)
	}
	taken := slices.ContainsFunc(devices, func(d Device) bool { return d.Name == AllDevice })
	if !opt.NoAll && !taken && len(all.Nodes) > 0 {
		devices = append(devices, all)
	}
	return devices, errors.Join(errs...)
}

// none says whether a snapshot without devices is one without usable HCAs.
func none(snap *rdma.Snapshot) error {
	if len(snap.Usable()) > 0 {
		return ErrNoneListed
	}
	return ErrNoDevices
}

// checkEdits refuses an HCA whose nodes or limits no spec can carry, whatever its name there.
func (o *HostOptions) checkEdits(h *rdma.HCA, nodes []rdma.Node) error {
	d := Device{Nodes: slices.Concat(nodes, h.MADs), Hook: &Hook{}} // what an HCA adds to any hook
	if len(nodes) > 0 {
		d.Limits = o.limits(h)
	}
	edits := specs.ContainerEdits{DeviceNodes: deviceNodes(d.Nodes, nil), Hooks: hooks(d.Hook, d)}
	if err := errors.Join(checkLimits(d), printable(textOf(&edits)...)); err != nil {
		return fmt.Errorf("HCA %s is left out: %w", h.IBDev, err)
	}
	return nil
}

// ownNodes returns the nodes of the device that stands for an HCA itself, none if
// only management nodes are asked for.
func (o *HostOptions) ownNodes(h *rdma.HCA, rdmaCM *rdma.Node) ([]rdma.Node, error) {
	own := slices.DeleteFunc(slices.Clone(o.Nodes), NodeClass.Privileged)
	if len(own) == 0 {
		return nil, nil
	}
	return SelectNodes(h, rdmaCM, own)
}

// missing says which management nodes were asked for and no HCA of the host has.
func (o *HostOptions) missing(snap *rdma.Snapshot) error {
	var errs []error
	for _, class := range o.Nodes {
		has := func(h rdma.HCA) bool { return len(madNodes(&h, class)) > 0 }
		if class.Privileged() && len(snap.HCAs) > 0 && !slices.ContainsFunc(snap.HCAs, has) {
			errs = append(errs, fmt.Errorf("no HCA has an %s node: %s", nodeKind(class), noMADs))
		}
	}
	return errors.Join(errs...)
}

// variant is one of the devices that an HCA has under each of its names.
type variant struct {
	suffix string
	nodes  []rdma.Node
	limits []Limit
}

// variants returns the devices that an HCA has under each of its names: itself, where it has
// nodes of its own, and one for each class of management nodes. An HCA without management nodes,
// as with EFA and iWARP, has no devices for them.
func (o *HostOptions) variants(h *rdma.HCA, nodes []rdma.Node) []variant {
	var out []variant
	if len(nodes) > 0 {
		out = append(out, variant{"", nodes, o.limits(h)})
	}
	mad, sm := madNodes(h, MAD), madNodes(h, SM)
	if slices.Contains(o.Nodes, MAD) && len(mad) > 0 {
		out = append(out, variant{"-mad", mad, nil})
	}
	if slices.Contains(o.Nodes, SM) && len(sm) > 0 {
		// A subnet manager announces itself by issm and works through umad.
		out = append(out, variant{"-sm", slices.Concat(mad, sm), nil})
	}
	return out
}

// devicesOf makes the devices of one HCA, under each of its names. A device whose name cannot
// stand in the spec is left out with the reason.
func (o *HostOptions) devicesOf(h *rdma.HCA, names *namer, nodes []rdma.Node) ([]Device, error) {
	var devices []Device
	hcaNames, err := names.of(h)
	errs := []error{err}
	for _, name := range hcaNames {
		for _, v := range o.variants(h, nodes) {
			if err := names.check(h, name, v.suffix); err != nil {
				errs = append(errs, err)
				continue
			}
			d := o.device(name+v.suffix, v.nodes)
			d.Limits = v.limits
			devices = append(devices, d)
		}
	}
	return devices, errors.Join(errs...)
}

// managementOnly reports whether h is an SMI sub-device: it has no verbs and sits
// on the function of an HCA that has.
func managementOnly(h *rdma.HCA, hcas []rdma.HCA) bool {
	if h.Uverbs != nil || len(h.MADs) == 0 || h.Identity.PCI == "" {
		return false
	}
	return slices.ContainsFunc(hcas, func(other rdma.HCA) bool {
		return other.Uverbs != nil && other.Identity.PCI == h.Identity.PCI && other.Identity.SF == nil && h.Identity.SF == nil
	})
}
