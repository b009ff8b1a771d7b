package resources

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Attributes that a policy sets.
const (
	AttributeRail         resourceapi.QualifiedName = "rail"
	AttributeDeviceID     resourceapi.QualifiedName = "k8s.cni.cncf.io/deviceID"
	AttributeResourceName resourceapi.QualifiedName = "k8s.cni.cncf.io/resourceName"
)

// OwnAttributes are what an HCA's device can have by itself. No site can set them.
var OwnAttributes = []resourceapi.QualifiedName{
	"ibdev", "protocol", "function", "parentPCI", "driver", "model", "boardID", "firmware", "netnsMode",
	"nodeGUID", "sysImageGUID", "shared", "ports", "linkLayer", "netdev", "subnetPrefix", "rateGbps",
	"vendor", "pcieSwitch", deviceattribute.StandardDeviceAttributePCIeRoot,
	deviceattribute.StandardDeviceAttributeNUMANode, deviceattribute.StandardDeviceAttributePCIBusID,
}

// Attributes describes an HCA in the terms that DeviceClasses and claims select
// by. Names without a domain are in the domain of the driver, rdma.dev. They are
// an interface to users' CEL expressions: see docs/attributes.md. An attribute
// whose value is not known is absent. Whether a port is up is no attribute, since
// it changes while the device stays the same.
func Attributes(h *rdma.HCA, mode rdma.NetnsMode) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	a := attributes{}
	a.text("ibdev", h.IBDev)
	a.text("protocol", string(h.Protocol))
	a.text("function", string(h.Function))
	a.text("parentPCI", h.PF)
	a.text("driver", h.Driver)
	a.text("model", h.Model)
	a.text("boardID", h.BoardID)
	a.text("firmware", h.Firmware)
	a.text("netnsMode", string(mode))
	a.guid("nodeGUID", h.NodeGUID)
	a.guid("sysImageGUID", h.SysImageGUID)
	a.truth("shared", false)
	a.ports(h)
	if h.PCI != nil {
		a.pci(h)
	}
	return a
}

type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// text sets a string that is known and fits; a longer one would make the whole
// slice invalid.
func (a attributes) text(name resourceapi.QualifiedName, value string) {
	if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength {
		a[name] = resourceapi.DeviceAttribute{StringValue: &value}
	}
}

func (a attributes) number(name resourceapi.QualifiedName, value int) {
	v := int64(value)
	a[name] = resourceapi.DeviceAttribute{IntValue: &v}
}

func (a attributes) truth(name resourceapi.QualifiedName, value bool) {
	a[name] = resourceapi.DeviceAttribute{BoolValue: &value}
}

func (a attributes) guid(name resourceapi.QualifiedName, value rdma.GUID) {
	if value != 0 {
		a.text(name, value.String())
	}
}

// ports describes the ports, by the first one: the others of an HCA are of the
// same kind. The rate of a port that is not ACTIVE means nothing.
func (a attributes) ports(h *rdma.HCA) {
	count := 0
	for range h.OwnPorts() {
		count++
	}
	a.number("ports", count)
	p := h.Port1()
	if p == nil {
		return
	}
	a.text("linkLayer", string(p.LinkLayer))
	a.text("netdev", p.Netdev)
	a.guid("subnetPrefix", p.SubnetPrefix)
	if p.State == rdma.PortActive && p.RateMbps > 0 {
		a.number("rateGbps", p.RateMbps/1000)
	}
}

// pci sets where the HCA sits. The standard attributes are what other drivers
// publish as well, so a claim can ask for a GPU and an HCA under one root. They
// are scalars: lists do not work in Kubernetes 1.36.
func (a attributes) pci(h *rdma.HCA) {
	a.text("vendor", h.PCI.Vendor)
	a.text("pcieSwitch", h.PCI.Switch())
	a.text(deviceattribute.StandardDeviceAttributePCIeRoot, h.PCI.Root)
	if h.PCI.NUMANode != nil {
		a.number(deviceattribute.StandardDeviceAttributeNUMANode, *h.PCI.NUMANode)
	}
	if h.Function == rdma.PF || h.Function == rdma.VF {
		// An SF or a software HCA only borrows the function.
		a.text(deviceattribute.StandardDeviceAttributePCIBusID, h.PCI.Address)
	}
}
