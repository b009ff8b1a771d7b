package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// variablePrefix begins the variables that say for which HCAs a device of a spec is (ADR 58).
const variablePrefix = "RDMA_DEVICE_"

// DeviceVariable returns the name of the variable with the kernel's name of an HCA: RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0.
// It is named after the slot, so that the HCAs of a container do not overwrite each other's variables.
func DeviceVariable(hca string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(hca, "-", "_"))
}

// purpose returns the slots that variables name, with the kernel's names that the HCAs had.
func purpose(env []string) map[string]string {
	slots := map[string]string{}
	for _, v := range env {
		if name, ibdev, ok := strings.Cut(v, "="); ok {
			if slot, ok := strings.CutPrefix(name, variablePrefix); ok {
				slots[strings.ToLower(strings.ReplaceAll(slot, "_", "-"))] = ibdev
			}
		}
	}
	return slots
}

// ErrNoOwner is in the error of a node of a spec that the kernel does not have.
var ErrNoOwner = errors.New("belongs to no HCA now")

// Slots are the HCAs of a host, to compare specs with.
type Slots struct {
	byNode, byName map[string]*rdma.HCA
	// complete means that a node without an HCA has none: of a snapshot with holes, or in a mode in which pods take HCAs
	// away, that is not known.
	complete bool
}

// NewSlots returns the HCAs of a snapshot.
func NewSlots(snap *rdma.Snapshot) *Slots {
	s := &Slots{map[string]*rdma.HCA{}, map[string]*rdma.HCA{},
		len(snap.Problems) == 0 && snap.NetnsMode != rdma.NetnsExclusive}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		for _, n := range h.Nodes() {
			s.byNode[n.Path()] = h
		}
		for _, name := range namesOf(h, NameStrategies) {
			s.byName[name] = h
		}
	}
	return s
}

// Purpose compares what a device of a spec is for with the HCAs. It returns an error if a node belongs to another HCA
// now, or if the device's name does. Names and numbers of nodes follow the order of probing, and interfaces get other
// names. known reports whether all nodes could be compared.
func (s *Slots) Purpose(spec *specs.Spec, device *specs.Device) (known bool, err error) {
	edits := &device.ContainerEdits
	slots := purpose(slices.Concat(spec.ContainerEdits.Env, edits.Env))
	var errs []error
	known = true
	for _, node := range nodesOf(slices.Concat(spec.ContainerEdits.DeviceNodes, edits.DeviceNodes)) {
		switch owner := s.byNode[node]; {
		case owner == nil && s.complete:
			errs = append(errs, fmt.Errorf("%s %w", path.Base(node), ErrNoOwner))
		case owner == nil:
			known = false
		case len(slots) > 0:
			errs = append(errs, cmp.Or(compare(slots, owner, node), s.compareName(device.Name, owner, node)))
		default: // a spec of another program, or of an older release
			err = s.compareName(device.Name, owner, node)
			known = known && err != nil
			errs = append(errs, err)
		}
	}
	return known, errors.Join(errs...)
}

// compare compares the owner of a node with the HCAs for which a device is.
func compare(slots map[string]string, owner *rdma.HCA, node string) error {
	ibdev, ok := slots[owner.Name]
	if !ok {
		return fmt.Errorf("it is for %s, and %s belongs to %s (%s) now", strings.Join(slices.Sorted(maps.Keys(slots)), " and "),
			path.Base(node), owner.Name, owner.IBDev)
	}
	if ibdev != owner.IBDev {
		return fmt.Errorf("%s is called %s now, and was %s when the spec was written", owner.Name, owner.IBDev, ibdev)
	}
	return nil
}

// compareName compares the owner of a node with the HCAs that have the name of a device now.
func (s *Slots) compareName(device string, owner *rdma.HCA, node string) error {
	name := strings.TrimSuffix(strings.TrimSuffix(device, "-mad"), "-sm")
	named := s.byName[name]
	if named == nil || slices.Contains(namesOf(owner, NameStrategies), name) {
		return nil
	}
	return fmt.Errorf("%s belongs to %s (%s) now, and the name %s to %s (%s)", path.Base(node), owner.IBDev, owner.Name,
		name, named.IBDev, named.Name)
}

// nodesOf lists the paths of nodes that belong to one HCA.
func nodesOf(nodes []*specs.DeviceNode) (paths []string) {
	for _, n := range nodes {
		name := path.Clean(n.Path)
		if n.HostPath != "" {
			name = path.Clean(n.HostPath)
		}
		kind := rdma.NodeKind(strings.TrimRight(path.Base(name), "0123456789"))
		if path.Dir(name) == rdma.DevDir && kind != rdma.NodeRDMACM {
			paths = append(paths, name)
		}
	}
	return paths
}

// Purpose compares the device with the HCAs of a host, as Slots.Purpose does.
func (d *Resolved) Purpose(s *Slots) (known bool, err error) { return s.Purpose(d.spec, d.device) }

// GivesHCA reports whether the device gives a node that belongs to one HCA.
func (d *Resolved) GivesHCA() bool {
	return len(nodesOf(d.spec.ContainerEdits.DeviceNodes))+len(nodesOf(d.device.ContainerEdits.DeviceNodes)) > 0
}

// NodeOwners returns, for each node of an HCA, the HCA and the slot that the node must belong to, for the hook. rdma_cm
// belongs to none. Sysfs does not say whose a node for PSM is. The kernel renumbers it with the uverbs node of the HCA,
// which stands for it.
func NodeOwners(h *rdma.HCA, nodes []rdma.Node) (out []args.NodeOwner) {
	sf := ""
	if h.Identity.SF != nil {
		sf = strconv.Itoa(*h.Identity.SF)
	}
	for _, n := range nodes {
		owner := args.NodeOwner{IBDev: h.IBDev, Node: n.Name, PCI: h.Identity.PCI, SF: sf}
		if n.Kind == rdma.NodePSM {
			owner.Node = h.Uverbs.Name
		}
		if n.Kind != rdma.NodeRDMACM && !slices.Contains(out, owner) {
			out = append(out, owner)
		}
	}
	return out
}
