package resources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// These are the attributes of CNI plugins. A policy sets them, as it sets rail and leafSwitch.
const (
	AttributeDeviceID     resourceapi.QualifiedName = "k8s.cni.cncf.io/deviceID"
	AttributeResourceName resourceapi.QualifiedName = "k8s.cni.cncf.io/resourceName"
)

// own are the attributes that the device of an HCA can have by itself, with the functions that return their values: a
// string, an int or a bool. A value that is not known is nil or "".
var own = []struct {
	name  resourceapi.QualifiedName
	value func(*rdma.HCA, rdma.NetnsMode) any
}{
	{rdma.AttributeIBDev, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.IBDev }},
	{rdma.AttributeProtocol, func(h *rdma.HCA, _ rdma.NetnsMode) any { return string(h.Protocol) }},
	{rdma.AttributeFunction, func(h *rdma.HCA, _ rdma.NetnsMode) any { return string(h.Function) }},
	{rdma.AttributeParentPCI, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.PF }},
	{rdma.AttributeDriver, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.Driver }},
	{rdma.AttributeModel, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.Model }},
	{rdma.AttributeBoardID, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.BoardID }},
	{rdma.AttributeFirmware, func(h *rdma.HCA, _ rdma.NetnsMode) any { return h.Firmware }},
	{rdma.AttributeNetnsMode, func(_ *rdma.HCA, mode rdma.NetnsMode) any { return string(mode) }},
	{rdma.AttributeNodeGUID, func(h *rdma.HCA, _ rdma.NetnsMode) any { return guid(h.NodeGUID) }},
	{rdma.AttributeSysImageGUID, func(h *rdma.HCA, _ rdma.NetnsMode) any { return guid(h.SysImageGUID) }},
	{rdma.AttributeShared, func(*rdma.HCA, rdma.NetnsMode) any { return false }},
	{rdma.AttributePorts, func(h *rdma.HCA, _ rdma.NetnsMode) any { return len(slices.Collect(h.OwnPorts())) }},
	{rdma.AttributeLinkLayer, ofPort(func(p *rdma.Port) any { return string(p.LinkLayer) })},
	{rdma.AttributeNetdev, ofPort(func(p *rdma.Port) any { return p.Netdev })},
	{rdma.AttributeSubnetPrefix, ofPort(func(p *rdma.Port) any { return guid(p.SubnetPrefix) })},
	{rdma.AttributeRateGbps, ofPort(rate)},
	{rdma.AttributeVendor, ofPCI(func(h *rdma.HCA) any { return h.PCI.Vendor })},
	{rdma.AttributePCIeSwitch, ofPCI(func(h *rdma.HCA) any { return h.DataFunction().Switch() })},
	{deviceattribute.StandardDeviceAttributePCIeRoot, ofPCI(func(h *rdma.HCA) any { return h.DataFunction().Root })},
	{deviceattribute.StandardDeviceAttributeNUMANode, ofPCI(numaNode)},
	{deviceattribute.StandardDeviceAttributePCIBusID, ofPCI(busID)},
}

// placeAttributes are the own attributes that say where an HCA is. A group has those on which all its members agree.
var placeAttributes = []resourceapi.QualifiedName{
	rdma.AttributeSysImageGUID, rdma.AttributePCIeSwitch,
	deviceattribute.StandardDeviceAttributePCIeRoot, deviceattribute.StandardDeviceAttributeNUMANode,
}

// OwnAttributes are the attributes that the device of an HCA can have by itself. A site's policy cannot set them.
var OwnAttributes = func() (names []resourceapi.QualifiedName) {
	for _, one := range own {
		names = append(names, one.name)
	}
	return names
}()

// Attributes returns the attributes of an HCA. DeviceClasses and claims select devices by them. Names without a domain
// are in the driver's domain, rdma.dev. They are an interface for users' CEL expressions: see docs/attributes.md. An
// attribute without a known value is absent. The state of a port is no attribute, because it changes while the device
// stays the same. Other drivers publish the same standard attributes, so a claim can request a GPU and an HCA below one
// PCIe root. With Data Direct, root, switch and NUMA node are those of the DMA function, and pciBusID is the PF's
// (docs/adr/0005). The attributes are scalars, because lists do not work in Kubernetes 1.36.
func Attributes(h *rdma.HCA, mode rdma.NetnsMode) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	a := make(attributes, len(own))
	for _, one := range own {
		a.set(one.name, one.value(h, mode))
	}
	return a
}

type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// set sets an attribute with a known value. It leaves out a string that is too long: it would make the whole slice
// invalid.
func (a attributes) set(name resourceapi.QualifiedName, value any) {
	switch value := value.(type) {
	case string:
		if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength {
			a[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	case int:
		a[name] = resourceapi.DeviceAttribute{IntValue: new(int64(value))}
	case bool:
		a[name] = resourceapi.DeviceAttribute{BoolValue: &value}
	}
}

// setCommon sets the places that all HCAs have in common. A place that one of them does not have is not common.
func (a attributes) setCommon(hcas []*rdma.HCA) {
	for _, one := range own {
		if !slices.Contains(placeAttributes, one.name) || len(hcas) == 0 {
			continue
		}
		first := one.value(hcas[0], rdma.NetnsUnknown)
		if !slices.ContainsFunc(hcas[1:], func(h *rdma.HCA) bool { return one.value(h, rdma.NetnsUnknown) != first }) {
			a.set(one.name, first)
		}
	}
}

func guid(value rdma.GUID) any {
	if value == 0 {
		return nil
	}
	return value.String()
}

// ofPort returns a value of the first port, because all ports of an HCA are of the same kind.
func ofPort(value func(*rdma.Port) any) func(*rdma.HCA, rdma.NetnsMode) any {
	return func(h *rdma.HCA, _ rdma.NetnsMode) any {
		if p := h.Port1(); p != nil {
			return value(p)
		}
		return nil
	}
}

// rate does not follow the members of a LAG: that one of them lost its link is a condition, port-slow.
func rate(p *rdma.Port) any {
	if mbps := p.ConfiguredMbps(); mbps > 0 {
		return mbps / 1000
	}
	return nil
}

// ofPCI returns a value of an HCA that is a PCI function.
func ofPCI(value func(*rdma.HCA) any) func(*rdma.HCA, rdma.NetnsMode) any {
	return func(h *rdma.HCA, _ rdma.NetnsMode) any {
		if h.PCI == nil {
			return nil
		}
		return value(h)
	}
}

func numaNode(h *rdma.HCA) any {
	if numa := h.DataFunction().NUMANode; numa != nil {
		return *numa
	}
	return nil
}

// busID is the PCI function. That of an SF or a software HCA is that of another device.
func busID(h *rdma.HCA) any {
	if h.Function != rdma.PF && h.Function != rdma.VF {
		return nil
	}
	return h.PCI.Address
}
