package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NameStrategy is a way to derive the names of HCAs in a spec.
type NameStrategy string

// The name strategies. A spec lists a device once for each strategy in use.
const (
	// NameIBDev is the kernel's name, mlx5_0. It is easy to type, but it follows
	// probe order.
	NameIBDev NameStrategy = "ibdev"
	// NamePCI is the slot, pci-0000-3b-00-0. It survives reboots. It has a prefix
	// because names that start with a digit need CDI 0.5.0.
	NamePCI NameStrategy = "pci"
	// NameGUID is the node GUID, guid-a088c203003f1a2b. It belongs to the card.
	NameGUID NameStrategy = "guid"
	// NameNetdev is the network interface of the first port, net-ens1f0np0.
	NameNetdev NameStrategy = "netdev"
)

// NameStrategies lists all strategies. DefaultNames lists those that name every HCA.
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

// AllDevice is the name of the device with all HCAs of a spec.
const AllDevice = "all"

// HostOptions configure the spec of a host.
type HostOptions struct {
	// Names are the strategies, at least one.
	Names []NameStrategy
	// Nodes are the node classes of the devices. MAD and SM have separate devices,
	// <name>-mad and <name>-sm, so that a container gets them only by requesting
	// them. The device of an HCA, and the device all, never include them.
	Nodes []rdma.NodeClass
	// NoAll omits the device named all.
	NoAll bool
	// Env, Mounts and Hook are given to every device.
	Env    []string
	Mounts []Mount
	Hook   *Hook
	// Limit bounds what a container may use of each of its HCAs. It needs a Hook, which sets it.
	Limit args.Wanted
}

// hookOf returns the hook with what it does for the given HCAs, nil for no hook.
func (o *HostOptions) hookOf(hook *Hook, hcas ...*rdma.HCA) *Hook {
	if hook == nil {
		return nil
	}
	own := *hook
	for _, h := range hcas {
		own.CheckUse(h)
		if o.Limit != (args.Wanted{}) {
			own.Options.Limits = append(own.Options.Limits, args.Limit{IBDev: h.IBDev, Want: o.Limit})
		}
	}
	return &own
}

// device makes a device with the common edits, which says for which HCAs it is.
func (o *HostOptions) device(name string, nodes []rdma.Node, hcas ...*rdma.HCA) Device {
	env := slices.Clone(o.Env)
	for _, h := range hcas {
		env = append(env, DeviceVariable(h.Name)+"="+h.IBDev)
	}
	return Device{Name: name, Nodes: nodes, Env: env, Mounts: o.Mounts, Hook: o.Hook.owning(hcas, nodes)}
}

// ErrNoDevices means that the host has no HCA that a container can use.
var ErrNoDevices = errors.New("no RDMA device that a container can be given")

// ErrNoneListed means that the host has such HCAs, but the chosen names and nodes make no
// device of any of them.
var ErrNoneListed = errors.New("the chosen names and nodes make no device of the host's HCAs")

// ErrNoMatch means that a pattern of Select matches no HCA of the host.
var ErrNoMatch = errors.New("no device matches")

// Select returns the HCAs that match a pattern of only, or all if only is empty. It omits HCAs that
// match a pattern of exclude. A pattern (path.Match) matches any of the names that an HCA can be listed
// by, or the PCI address. The PCI address does not match the subfunctions on it. A pattern
// without a match is ErrNoMatch, because the user named a device that is not there.
func Select(hcas []rdma.HCA, only, exclude []string) ([]rdma.HCA, error) {
	chosen, errOnly := match(hcas, only)
	withheld, errExclude := match(hcas, exclude)
	out := make([]rdma.HCA, 0, len(hcas))
	for i, h := range hcas {
		if (chosen[i] || len(only) == 0) && !withheld[i] {
			out = append(out, h)
		}
	}
	return out, errors.Join(errOnly, errExclude)
}

// match reports which HCAs match a pattern. It returns an error for the first pattern that is invalid, or matches none.
func match(hcas []rdma.HCA, patterns []string) (matched []bool, err error) {
	matched = make([]bool, len(hcas))
	for _, p := range patterns {
		found := false
		for i := range hcas {
			for _, name := range patternNames(&hcas[i]) {
				ok, bad := path.Match(p, name)
				if bad != nil {
					return matched, fmt.Errorf("match devices with %q: %w", p, bad)
				}
				found, matched[i] = found || ok, matched[i] || ok
			}
		}
		if !found && err == nil {
			err = fmt.Errorf("%w %q: have %s", ErrNoMatch, p, listNames(hcas))
		}
	}
	return matched, err
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

// patternNames returns what a pattern can match: all names of an HCA, and its PCI address.
func patternNames(h *rdma.HCA) []string {
	names := namesOf(h, NameStrategies)
	if h.Identity.PCI != "" && h.Identity.SF == nil {
		names = append(names, h.Identity.PCI)
	}
	return names
}

// HostDevices makes the devices of a host's spec. It returns the devices together with the reasons
// why it left others out. Without devices, the error includes ErrNoDevices, or ErrNoneListed if other
// options would make devices. The devices are valid together in one spec: an invalid device removes
// no other one. It omits a management-only device beside a usable one without a reason,
// because containers never use it.
func HostDevices(snap *rdma.Snapshot, opt HostOptions) ([]Device, error) {
	if opt.Limit != (args.Wanted{}) && opt.Hook == nil {
		return nil, errors.New("limit the HCAs of containers: limits need a hook that sets them")
	}
	var errs []error
	var devices []Device
	var listed []*rdma.HCA
	var nodesOfAll []rdma.Node
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
			nodesOfAll = append(nodesOfAll, nodes...)
			listed = append(listed, h)
		}
	}
	errs = append(errs, opt.missing(snap))
	if len(devices) == 0 {
		err := ErrNoDevices
		if len(snap.Usable()) > 0 {
			err = ErrNoneListed
		}
		return nil, errors.Join(append(errs, err)...)
	}
	taken := slices.ContainsFunc(devices, func(d Device) bool { return d.Name == AllDevice })
	if !opt.NoAll && !taken && len(nodesOfAll) > 0 {
		all := opt.device(AllDevice, nodesOfAll, listed...)
		all.Hook = opt.hookOf(all.Hook, listed...)
		devices = append(devices, all)
	}
	return devices, errors.Join(errs...)
}

// checkEdits rejects an HCA whose nodes or limits are not valid in any spec, under any name.
func (o *HostOptions) checkEdits(h *rdma.HCA, nodes []rdma.Node) error {
	hook := &Hook{} // the HCA's own part of any hook
	if len(nodes) > 0 {
		hook = o.hookOf(hook, h)
	}
	edits := specs.ContainerEdits{DeviceNodes: deviceNodes(slices.Concat(nodes, h.MADs), nil), Hooks: hooks(hook)}
	if err := errors.Join(checkHook(hook), printable(&edits)); err != nil {
		return fmt.Errorf("HCA %s is left out: %w", h.IBDev, err)
	}
	return nil
}

// ownNodes returns the nodes of the HCA's own device, none if the options select only
// management nodes. Nodes for PSM are for Omni-Path HCAs alone; others beside them have devices without.
func (o *HostOptions) ownNodes(h *rdma.HCA, rdmaCM *rdma.Node) ([]rdma.Node, error) {
	own := slices.DeleteFunc(slices.Clone(o.Nodes), func(c rdma.NodeClass) bool {
		return c.Privileged() || c == rdma.ClassPSM && h.Protocol != rdma.ProtocolOPA
	})
	if len(own) == 0 {
		return nil, nil
	}
	return SelectNodes(h, rdmaCM, own)
}

// missing returns an error for each selected class of management nodes that no HCA has, and for the nodes that /dev
// lacks. Those for verbs and PSM leave out their HCA.
func (o *HostOptions) missing(snap *rdma.Snapshot) error {
	var errs []error
	kinds := map[rdma.NodeClass][]rdma.NodeKind{rdma.ClassCM: {rdma.NodeRDMACM}, rdma.ClassMAD: {rdma.NodeUMAD},
		rdma.ClassSM: {rdma.NodeUMAD, rdma.NodeISSM}}
	for _, n := range snap.Nodes() {
		if n.Missing && slices.ContainsFunc(o.Nodes, func(c rdma.NodeClass) bool { return slices.Contains(kinds[c], n.Kind) }) {
			errs = append(errs, fmt.Errorf("node %s is left out: %s lacks it", n.Name, rdma.DevDir))
		}
	}
	for _, class := range o.Nodes {
		has := func(h rdma.HCA) bool {
			return slices.ContainsFunc(h.MADs, func(n rdma.Node) bool { return n.Kind == nodeKind(class) })
		}
		isOPA := func(h rdma.HCA) bool { return h.Protocol == rdma.ProtocolOPA }
		if class == rdma.ClassPSM && len(snap.HCAs) > 0 && !slices.ContainsFunc(snap.HCAs, isOPA) {
			errs = append(errs, fmt.Errorf("no HCA has an hfi1 node: %s", noPSM))
		}
		if class.Privileged() && len(snap.HCAs) > 0 && !slices.ContainsFunc(snap.HCAs, has) {
			errs = append(errs, fmt.Errorf("no HCA has an %s node: %s", nodeKind(class), noMADs))
		}
	}
	return errors.Join(errs...)
}

// variants returns the devices that an HCA has for each name: its own, if it has nodes, and one for
// each class of management nodes. Their names are suffixes. HCAs without management nodes, such as EFA
// and iWARP, have none for them.
func (o *HostOptions) variants(h *rdma.HCA, nodes []rdma.Node) []Device {
	var out []Device
	if len(nodes) > 0 {
		own := o.device("", nodes, h)
		own.Hook = o.hookOf(own.Hook, h)
		out = append(out, own)
	}
	mad, sm := madNodes(h, rdma.ClassMAD), madNodes(h, rdma.ClassSM)
	if slices.Contains(o.Nodes, rdma.ClassMAD) && len(mad) > 0 {
		out = append(out, o.device("-mad", mad, h))
	}
	if slices.Contains(o.Nodes, rdma.ClassSM) && len(sm) > 0 {
		// A subnet manager announces itself by issm and works through umad.
		out = append(out, o.device("-sm", slices.Concat(mad, sm), h))
	}
	return out
}

// devicesOf makes the devices of one HCA, under each of its names. It returns an error for each
// invalid name, and omits that device.
func (o *HostOptions) devicesOf(h *rdma.HCA, names *namer, nodes []rdma.Node) ([]Device, error) {
	var devices []Device
	hcaNames, err := names.namesOf(h)
	errs := []error{err}
	for _, name := range hcaNames {
		for _, d := range o.variants(h, nodes) {
			if err := names.check(h, name, d.Name); err != nil {
				errs = append(errs, err)
				continue
			}
			d.Name = name + d.Name
			devices = append(devices, d)
		}
	}
	return devices, errors.Join(errs...)
}

// managementOnly reports whether h is an SMI sub-device: it has no verbs, and its PCI function
// also carries an HCA with verbs. A manager of NVSwitches beside a usable HCA is one too.
func managementOnly(h *rdma.HCA, hcas []rdma.HCA) bool {
	if h.Purpose == rdma.PurposeSwitchManager {
		return slices.ContainsFunc(hcas, func(other rdma.HCA) bool { return other.Unusable() == nil })
	}
	if h.Uverbs != nil || len(h.MADs) == 0 || h.Identity.PCI == "" {
		return false
	}
	return slices.ContainsFunc(hcas, func(other rdma.HCA) bool {
		return other.Uverbs != nil && other.Identity.PCI == h.Identity.PCI && other.Identity.SF == nil && h.Identity.SF == nil
	})
}
