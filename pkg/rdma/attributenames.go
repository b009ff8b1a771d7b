package rdma

// The attributes of published devices, in the domain [Domain]. Users select devices by them: see docs/attributes.md.
// Package pkg/dra/resources publishes them, and kubectl rdma reads them.
const (
	AttributeIBDev        = "ibdev"
	AttributeProtocol     = "protocol"
	AttributeFunction     = "function"
	AttributeParentPCI    = "parentPCI"
	AttributeDriver       = "driver"
	AttributeModel        = "model"
	AttributeBoardID      = "boardID"
	AttributeFirmware     = "firmware"
	AttributeNetnsMode    = "netnsMode"
	AttributeNodeGUID     = "nodeGUID"
	AttributeSysImageGUID = "sysImageGUID"
	AttributeShared       = "shared"
	AttributePorts        = "ports"
	AttributeLinkLayer    = "linkLayer"
	AttributeNetdev       = "netdev"
	AttributeSubnetPrefix = "subnetPrefix"
	AttributeRateGbps     = "rateGbps"
	AttributeVendor       = "vendor"
	AttributePCIeSwitch   = "pcieSwitch"
	AttributeGroup        = "group"
	AttributeRail         = "rail"
	AttributeLeafSwitch   = "leafSwitch"
)

// ShownInArchives are the attributes whose text the HCA or its driver gives, and no site: archives of bug reports show
// their values.
var ShownInArchives = []string{
	AttributeIBDev, AttributeProtocol, AttributeFunction, AttributeParentPCI, AttributeDriver, AttributeModel,
	AttributeBoardID, AttributeFirmware, AttributeNetnsMode, AttributeNodeGUID, AttributeSysImageGUID,
	AttributeLinkLayer, AttributeNetdev, AttributeSubnetPrefix, AttributeVendor, AttributePCIeSwitch,
}
