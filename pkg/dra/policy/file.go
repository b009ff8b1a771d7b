package policy

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// The version and kind of the file.
const (
	APIVersion = hostconfig.APIVersion
	Kind       = "DriverConfig"
)

// File is the policy that Parse reads. The type is the source of the schema of the chart's value config and of
// docs/reference/configuration.md (tools/schema, tools/reference). So users read its comments in editors and in the
// documentation. A last sentence that begins with "Defaults to" is the default.
type File struct {
	APIVersion           string `yaml:"apiVersion"`
	Kind                 string `yaml:"kind"`
	hostconfig.Container `yaml:",inline"`
	// Partitioning is whether devices of one card exclude each other by counters. It needs Kubernetes
	// 1.36.3 or newer (docs/sharing.md). Defaults to false.
	Partitioning bool `yaml:"partitioning"`
	// Rules are the rules for HCAs. The first rule whose selectors all match an HCA applies to it. An
	// HCA without a rule is exclusive.
	Rules []FileRule `yaml:"rules"`
	// Taints are the effects of faults of an HCA, by the name of the taint, with or without
	// rdma.dev/. None informs, NoSchedule keeps new claims away, NoExecute also deletes the
	// pods with the device, and Off sets no taint. Put Off in quotes: YAML takes the bare word
	// for false. Defaults to the effects in docs/health.md.
	Taints map[string]string `yaml:"taints"`
	// Health is how long a fault must last to count.
	Health FileHealth `yaml:"health"`
	// PublishInterval is the minimum time between two writes of a slice, from 0s to 1m. The driver
	// writes the first change after a longer pause at once. A longer interval reduces the load on the API
	// server of a large cluster where many links change at the same time. Defaults to 1s.
	PublishInterval *Duration `yaml:"publishInterval"`
	// LeafFrom are the sources that say to which leaf switch an HCA is connected, the first that knows it wins: networkd
	// (LLDP of systemd-networkd), file (written by the host) and table (of the site, chart value linkTable). Defaults to
	// none.
	LeafFrom []string `yaml:"leafFrom" jsonschema:"maxItems=3,enum=networkd,enum=file,enum=table"`
	// LeafLabelRail is the rail whose leaf switch becomes the label rdma.dev/leaf-switch of the node, by a file for Node
	// Feature Discovery. Defaults to no label.
	LeafLabelRail *int64 `yaml:"leafLabelRail" jsonschema:"minimum=0,maximum=2147483647"`
	// IPAM are the ways to assign addresses to network interfaces of claims, by name. An entry with a type
	// is the section ipam of a CNI configuration. An entry without a type divides a subnet among the nodes.
	IPAM map[string]FileIPAM `yaml:"ipam"`
	// Groups are devices that represent several HCAs.
	Groups []FileGroup `yaml:"groups"`
}

// FileRule configures how the driver publishes some HCAs.
type FileRule struct {
	// Name is the rule's name in the output of explain and in the log.
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
	// Selectors are expressions that must all match an HCA, as in a DeviceClass. Defaults to every HCA.
	Selectors []FileSelector `yaml:"selectors" jsonschema:"maxItems=31"`
	// Publish is how the driver publishes an HCA: not at all, for one claim at a time, as shares for many, or both. The
	// value both needs partitioning. Defaults to exclusive.
	Publish string `yaml:"publish" jsonschema:"enum=none,enum=exclusive,enum=shared,enum=both"`
	// Shares are the number of shares of a shared HCA. Defaults to 63.
	Shares *int64 `yaml:"shares" jsonschema:"minimum=1,maximum=1000000"`
	// DefaultShares are the shares of a claim that does not set a number, at most all of them.
	// Defaults to 1.
	DefaultShares *int64 `yaml:"defaultShares" jsonschema:"minimum=1,maximum=1000000"`
	// Bandwidth is the total that claims can request, in bits per second, at least 1M. Defaults to the
	// rate of the first port, while it is known.
	Bandwidth *Quantity `yaml:"bandwidth"`
	// Handles are the open contexts of all shares (hca_handle), from the number of shares to
	// 2147483647. Defaults to no accounting and no limit.
	Handles *Quantity `yaml:"handles"`
	// Objects are the verbs objects of all shares (hca_object): queue pairs, completion queues,
	// memory regions and the like. The number is from the number of shares to 2147483647.
	// Defaults to no accounting and no limit.
	Objects *Quantity `yaml:"objects"`
	// Rail is the attribute rail of all HCAs of the rule.
	Rail *int64 `yaml:"rail" jsonschema:"minimum=0,maximum=2147483647"`
	// Rails is a number of cards: the cards of the rule get the attribute rail 0, 1, ... in PCI order.
	Rails *int64 `yaml:"rails" jsonschema:"minimum=1"`
	// IPAM is the name of the entry of ipam for claims that request the addresses of the rail (network.ipam:
	// rail), on all HCAs of the rule.
	IPAM string `yaml:"ipam"`
	// RailIPAM are such names, one for each number of rails.
	RailIPAM []string `yaml:"railIPAM"`
	// ResourceName is the attribute k8s.cni.cncf.io/resourceName for CNI plugins, PREFIX/NAME. The
	// HCA gets k8s.cni.cncf.io/deviceID too.
	ResourceName string `yaml:"resourceName"`
	// TrafficClass is the traffic class of packets, for the libraries that a claim names in env and where neither claim
	// nor class sets one. Defaults to the library's choice.
	TrafficClass *int `yaml:"trafficClass" jsonschema:"minimum=0,maximum=255"`
	// ServiceLevel is the service level of packets, used like trafficClass. Defaults to the library's choice.
	ServiceLevel *int `yaml:"serviceLevel" jsonschema:"minimum=0,maximum=15"`
	// VLAN is the VLAN of the network interfaces that pods get of the HCAs, 1 to 4094. A class, and a claim where the
	// class allows it, can name another one. Defaults to none.
	VLAN *int `yaml:"vlan" jsonschema:"minimum=1,maximum=4094"`
	// Unused is true for HCAs that nobody has cabled. They keep the taint port-down while their ports are down, which
	// raises no alert and no event of type Warning. Defaults to false.
	Unused bool `yaml:"unused"`
	// MinRateGbps is the lowest good rate of an HCA's link, in units of 10^9 bits per second. Below it, the HCA has the
	// condition port-slow. Defaults to a comparison with the other cards, if the rule has rails.
	MinRateGbps *int `yaml:"minRateGbps" jsonschema:"minimum=1,maximum=100000"`
	// MinPCIe is the lowest good state of an HCA's PCIe link and of those up to the root, as GT/s and lanes, such as
	// 32x16. Below their product, the HCA has the condition pcie-degraded. Defaults to a comparison with the other
	// cards, if the rule has rails.
	MinPCIe string `yaml:"minPCIe" jsonschema:"pattern=^[0-9]+([.][0-9]+)?x[0-9]+$"`
	// Attributes are additional attributes of the HCAs, by name.
	Attributes map[string]FileAttribute `yaml:"attributes"`
}

// FileGroup is a device that represents several HCAs.
type FileGroup struct {
	// Name is the name of the group, in lower case letters, digits and hyphens. The device is
	// group-NAME, and has the attribute group NAME.
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
	// Selectors are expressions that must all match a member, as in a DeviceClass. The rules do not matter.
	// Defaults to every HCA.
	Selectors []FileSelector `yaml:"selectors" jsonschema:"maxItems=31"`
	// Shares is the number of claims that can use the group at a time. Defaults to 63.
	Shares *int64 `yaml:"shares" jsonschema:"minimum=1,maximum=1000000"`
}

// FileSelector is a selector as in a DeviceClass.
type FileSelector struct {
	// CEL is an expression in the Common Expression Language.
	CEL FileCEL `yaml:"cel" jsonschema:"required"`
}

// FileCEL is an expression of a selector.
type FileCEL struct {
	// Expression is CEL over device.attributes, except shared, which the rule decides.
	Expression string `yaml:"expression" jsonschema:"required,minLength=1,maxLength=10240"`
}

// FileAttribute is an attribute as in a ResourceSlice, with one of the fields.
type FileAttribute struct {
	// String is a text of 1 to 64 bytes. An attribute has one of string, int and bool.
	String *string `yaml:"string" jsonschema:"maxLength=64"`
	// Int is a whole number.
	Int *int64 `yaml:"int"`
	// Bool is true or false.
	Bool *bool `yaml:"bool"`
}

// Quantity is a Kubernetes quantity: 4096, 400G.
type Quantity struct{ value resource.Quantity }

// UnmarshalYAML implements yaml.Unmarshaler.
func (q *Quantity) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := v1alpha1.ParseQuantity(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		// The format of the decoder's errors, which explain rewords.
		return &yaml.TypeError{Errors: []string{
			fmt.Sprintf("line %d: cannot unmarshal %s `%s` into quantity", node.Line, node.ShortTag(), node.Value)}}
	}
	q.value = parsed
	return nil
}

// problems collects the errors of a file.
type problems struct{ yamlread.Problems }

// add records an error of a field.
func (p *problems) add(path, format string, args ...any) { p.Add(path, fmt.Errorf(format, args...)) }
