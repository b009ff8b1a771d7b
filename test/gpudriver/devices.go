package main

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// driverName is the driver's name and the domain of its attributes.
const driverName = "gpu.example.com"

// pcieSwitch is the full name of the attribute that HCAs have too.
const pcieSwitch resourceapi.QualifiedName = "rdma.dev/pcieSwitch"

// slices describes the GPUs of a host, one slice for all.
func slices(t *topology.Topology) []resourceslice.Slice {
	devices := []resourceapi.Device{}
	for _, d := range t.Accelerators() {
		if d.Kind == topology.GPU {
			devices = append(devices, resourceapi.Device{Name: deviceName(d.Address), Attributes: attributes(d)})
		}
	}
	return []resourceslice.Slice{{Devices: devices}}
}

func attributes(d *topology.Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for name, value := range map[resourceapi.QualifiedName]string{
		"name":     d.Name,
		pcieSwitch: (&rdma.PCIFunction{Bridges: d.Bridges}).Switch(),
		deviceattribute.StandardDeviceAttributePCIeRoot: d.Root,
		deviceattribute.StandardDeviceAttributePCIBusID: d.Address,
	} {
		if value != "" {
			out[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	if d.NUMANode != nil {
		n := int64(*d.NUMANode)
		out[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValue: &n}
	}
	return out
}

// deviceName makes a DNS label of a PCI address: pci-0000-1b-00-0.
func deviceName(address string) string {
	return "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(address)
}
