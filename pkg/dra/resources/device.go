package resources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// maker makes devices of offers and groups.
type maker struct {
	mode  rdma.NetnsMode
	locks *locks
	Options
}

func (m maker) exclusive(o Offer) resourceapi.Device {
	d := resourceapi.Device{Name: o.HCA.Name, Attributes: m.attributes(o)}
	d.ConsumesCounters = m.locks.consumption(m.locks.exclusive(o))
	d.Taints = m.taints(o.Draining, o.Taints)
	return d
}

func (m maker) shared(o Offer) resourceapi.Device {
	d := resourceapi.Device{Name: devicename.Shared(o.HCA.Name), Attributes: m.attributes(o)}
	attributes(d.Attributes).set(rdma.AttributeShared, true)
	d.ConsumesCounters = m.locks.consumption(m.locks.shared(o.HCA))
	m.consume(&d, o.Capacity, o.Draining)
	d.Taints = m.taints(o.Draining, o.Taints)
	return d
}

// groups returns the devices of groups. They have no attribute of a single HCA, so only a class made for groups selects
// them. They have the place of their members, so that a claim can have a GPU and the group beside it.
func (m maker) groups(groups []Group, taints map[string][]resourceapi.DeviceTaint) []resourceapi.Device {
	var out []resourceapi.Device
	for _, g := range groups {
		a := attributes{}
		a.set(rdma.AttributeShared, true)
		a.set(rdma.AttributeGroup, g.Name)
		a.set("netnsMode", string(m.mode))
		a.setCommon(g.Members)
		d := resourceapi.Device{Name: devicename.Group(g.Name), Attributes: a}
		d.ConsumesCounters = m.locks.consumption(m.locks.shared(g.touches()...))
		m.consume(&d, Capacity{Shares: g.Shares, DefaultShares: 1}, g.Draining)
		d.Taints = m.taints(g.Draining, groupTaints(g.Members, taints))
		out = append(out, d)
	}
	return out
}

// attributes merges the attributes of an HCA with the attributes of the site. OwnAttributes take precedence, so that a
// policy cannot disguise an HCA.
func (m maker) attributes(o Offer) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	a := Attributes(o.HCA, m.mode)
	for name, value := range o.Attributes {
		if !slices.Contains(OwnAttributes, name) {
			a[name] = value
		}
	}
	return a
}

// consume lets many claims share a device. Without the API feature the device stays one for one claim at a time, which
// is safe.
func (m maker) consume(d *resourceapi.Device, c Capacity, draining bool) {
	if !m.Consumable {
		return
	}
	if draining {
		c = c.drained()
	}
	d.AllowMultipleAllocations = new(true)
	d.Capacity = c.published()
}
