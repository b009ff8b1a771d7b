package cdi

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// variablePrefix begins the variables by which a device of a spec says for which HCAs it is (ADR 58).
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

// Purpose compares what a device of a spec is for with the HCAs of a host. It returns an error if a node belongs to
// another HCA now: names and numbers of nodes follow the order of probing. known reports whether all nodes could be
// compared.
func Purpose(spec *specs.Spec, device *specs.Device, snap *rdma.Snapshot) (known bool, err error) {
	edits := &device.ContainerEdits
	slots := purpose(slices.Concat(spec.ContainerEdits.Env, edits.Env))
	// Of a snapshot with holes, or in a mode in which pods take HCAs away, a missing owner proves nothing.
	complete := len(snap.Problems) == 0 && snap.NetnsMode != rdma.NetnsExclusive
	var errs []error
	known = true
	for _, node := range nodesOf(slices.Concat(spec.ContainerEdits.DeviceNodes, edits.DeviceNodes)) {
		owner := ownerOf(snap, node)
		switch named := lookup(snap, device.Name); {
		case owner == nil && complete:
			errs = append(errs, fmt.Errorf("%s %w", path.Base(node), ErrNoOwner))
		case owner == nil:
			known = false
		case len(slots) > 0:
			errs = append(errs, compare(slots, owner, node))
		case named != nil && named != owner: // a spec of another program, or of an older release
			errs = append(errs, fmt.Errorf("%s belongs to %s (%s) now", path.Base(node), owner.IBDev, owner.Name))
		default:
			known = false
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

// ownerOf returns the HCA of a node, nil if there is none.
func ownerOf(snap *rdma.Snapshot, node string) *rdma.HCA {
	for i := range snap.HCAs {
		if slices.ContainsFunc(snap.HCAs[i].Nodes(), func(n *rdma.Node) bool { return n.Path() == node }) {
			return &snap.HCAs[i]
		}
	}
	return nil
}

// lookup returns the HCA that has the name of a device now, nil if there is none.
func lookup(snap *rdma.Snapshot, device string) *rdma.HCA {
	device = strings.TrimSuffix(strings.TrimSuffix(device, "-mad"), "-sm")
	for i := range snap.HCAs {
		if slices.Contains(namesOf(&snap.HCAs[i], NameStrategies), device) {
			return &snap.HCAs[i]
		}
	}
	return nil
}

// Purpose compares the device with the HCAs of a host, as the function Purpose does.
func (d *Resolved) Purpose(snap *rdma.Snapshot) (known bool, err error) {
	return Purpose(d.spec, d.device, snap)
}

// GivesHCA reports whether the device gives a node that belongs to one HCA.
func (d *Resolved) GivesHCA() bool {
	return len(nodesOf(d.spec.ContainerEdits.DeviceNodes))+len(nodesOf(d.device.ContainerEdits.DeviceNodes)) > 0
}

// Owners returns, for each node of an HCA, the HCA and the slot that the node must belong to, for the hook. rdma_cm
// belongs to none. Sysfs does not say whose a node for PSM is. The kernel renumbers it with the uverbs node of the HCA,
// which stands for it.
func Owners(h *rdma.HCA, nodes []rdma.Node) (out []args.NodeOwner) {
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
