package resources

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// These are the attributes that a policy sets.
const (
	AttributeRail         resourceapi.QualifiedName = "rail"
	AttributeDeviceID     resourceapi.QualifiedName = "k8s.cni.cncf.io/deviceID"
	AttributeResourceName resourceapi.QualifiedName = "k8s.cni.cncf.io/resourceName"
)

// OwnAttributes are the attributes that the device of an HCA can have by itself. A site's policy cannot set them.
var OwnAttributes = []resourceapi.QualifiedName{
	"ibdev", "protocol", "function", "parentPCI", "driver", "model", "boardID", "firmware", "netnsMode",
	"nodeGUID", "sysImageGUID", "shared", "ports", "linkLayer", "netdev", "subnetPrefix", "rateGbps",
	"vendor", "pcieSwitch", deviceattribute.StandardDeviceAttributePCIeRoot,
	deviceattribute.StandardDeviceAttributeNUMANode, deviceattribute.StandardDeviceAttributePCIBusID,
}

// Attributes returns the attributes of an HCA. DeviceClasses and claims select devices by them. Names without a domain
// are in the driver's domain, rdma.dev. They are an interface for users' CEL expressions: see docs/attributes.md. An
// attribute without a known value is absent. The state of a port is no attribute, because it changes while the device
// stays the same.
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

// text sets a string unless it is empty or too long. A longer one would make the whole slice invalid.
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

// ports sets the attributes of the ports from the first port, because all ports of an HCA are of the same kind. The
// rate of a port that is not ACTIVE has no meaning.
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

// pci sets the position of the HCA. Other drivers publish the same standard attributes, so a claim can request a GPU
// and an HCA below one PCIe root. The attributes are scalars, because lists do not work in Kubernetes 1.36.
func (a attributes) pci(h *rdma.HCA) {
	a.text("vendor", h.PCI.Vendor)
	a.text("pcieSwitch", h.PCI.Switch())
	a.text(deviceattribute.StandardDeviceAttributePCIeRoot, h.PCI.Root)
	if h.PCI.NUMANode != nil {
		a.number(deviceattribute.StandardDeviceAttributeNUMANode, *h.PCI.NUMANode)
	}
	if h.Function == rdma.PF || h.Function == rdma.VF {
		// The PCI function of an SF or a software HCA is that of another device.
		a.text(deviceattribute.StandardDeviceAttributePCIBusID, h.PCI.Address)
	}
}
