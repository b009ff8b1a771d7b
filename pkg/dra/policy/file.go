package policy

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// The version and kind of the file.
const (
	APIVersion = hostconfig.APIVersion
	Kind       = "DriverConfig"
)

// File is the configuration file as it is written, and Parse reads it. The schema of the
// chart's value config and docs/reference/configuration.md are made from the type: its
// comments are what an editor shows and what people read (tools/schema, tools/reference). A
// default stands in a last sentence that begins with "Defaults to".
type File struct {
	APIVersion           string `yaml:"apiVersion"`
	Kind                 string `yaml:"kind"`
	hostconfig.Container `yaml:",inline"`
	// Partitioning is whether devices of one card that exclude each other do so by counters. It
	// needs Kubernetes 1.36, or 1.35 with the feature gate DRAPartitionableDevices. Defaults to
	// false.
	Partitioning bool `yaml:"partitioning"`
	// Rules are what decides on HCAs: the first one whose selectors are all true for an HCA. An HCA
	// without a rule is exclusive.
	Rules []FileRule `yaml:"rules"`
	// Taints are what a fault of an HCA does, by the name of its taint, with or without
	// rdma.dev/: None informs, NoSchedule keeps new claims away, NoExecute also deletes the
	// pods that have the device, Off makes no taint; put it in quotes, YAML takes the bare word
	// for false. Defaults to the effects in docs/health.md.
	Taints map[string]string `yaml:"taints"`
	// Health is how long faults must be seen.
	Health FileHealth `yaml:"health"`
	// PublishInterval is the least time between two writes of a slice, from 0s to 1m. What
	// changes after a longer quiet is written at once. A longer one spares the API server of a
	// large cluster where many links change at a time. Defaults to 1s.
	PublishInterval *Duration `yaml:"publishInterval"`
	// IPAM are ways to give network interfaces of claims their addresses, by name: each is the
	// section ipam of a CNI configuration.
	IPAM map[string]map[string]any `yaml:"ipam"`
	// Groups are devices that stand for several HCAs at once.
	Groups []FileGroup `yaml:"groups"`
}

// FileRule is what is published of some HCAs.
type FileRule struct {
	// Name is a word for people: explain and the log name the rule.
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
	// Selectors are what must all be true for an HCA, as in a DeviceClass. Defaults to every HCA.
	Selectors []FileSelector `yaml:"selectors" jsonschema:"maxItems=31"`
	// Publish is how the driver publishes an HCA: not at all, for one claim at a time, as shares for many, or both. The
	// value both needs partitioning. Defaults to exclusive.
	Publish resources.View `yaml:"publish" jsonschema:"enum=none,enum=exclusive,enum=shared,enum=both"`
	// Shares are what a shared HCA is divided into. Defaults to 63.
	Shares *int64 `yaml:"shares" jsonschema:"minimum=1,maximum=1000000"`
	// DefaultShares are the shares that a claim gets that asks for none, at most all of them.
	// Defaults to 1.
	DefaultShares *int64 `yaml:"defaultShares" jsonschema:"minimum=1,maximum=1000000"`
	// Bandwidth is what claims can ask for, in bits per second, at least 1M. Defaults to the rate
	// of the first port, while it is known.
	Bandwidth *Quantity `yaml:"bandwidth"`
	// Handles are the open contexts of all shares (hca_handle), from the number of shares to
	// 2147483647. Defaults to no account and no limit.
	Handles *Quantity `yaml:"handles"`
	// Objects are the verbs objects of all shares (hca_object): queue pairs, completion queues,
	// memory regions and the like. Their number is at least that of the shares, and at most
	// 2147483647. Defaults to no account and no limit.
	Objects *Quantity `yaml:"objects"`
	// Rail is the attribute rail of all HCAs of the rule.
	Rail *int64 `yaml:"rail" jsonschema:"minimum=0,maximum=2147483647"`
	// Rails is a number of cards: the cards of the rule get the attribute rail 0, 1, ... in PCI order.
	Rails *int64 `yaml:"rails" jsonschema:"minimum=1"`
	// ResourceName is the attribute k8s.cni.cncf.io/resourceName for CNI plugins, PREFIX/NAME. The
	// HCA gets k8s.cni.cncf.io/deviceID as well.
	ResourceName string `yaml:"resourceName"`
	// Attributes are more attributes of the HCAs, by name.
	Attributes map[string]FileAttribute `yaml:"attributes"`
}

// FileGroup is a device that stands for several HCAs.
type FileGroup struct {
	// Name is what makes the device group-NAME, and its attribute group NAME: lower case
	// letters, digits and hyphens.
	Name string `yaml:"name" jsonschema:"required,minLength=1"`
	// Selectors are what must all be true for a member, as in a DeviceClass, whatever the rules
	// say of it. Defaults to every HCA.
	Selectors []FileSelector `yaml:"selectors" jsonschema:"maxItems=31"`
	// Shares is how many claims can have the group at a time. Defaults to 63.
	Shares *int64 `yaml:"shares" jsonschema:"minimum=1,maximum=1000000"`
}

// FileSelector is a selector as a DeviceClass has it.
type FileSelector struct {
	// CEL is an expression in the Common Expression Language.
	CEL FileCEL `yaml:"cel" jsonschema:"required"`
}

// FileCEL is an expression of a selector.
type FileCEL struct {
	// Expression is CEL over device.attributes, less shared, which the rule decides.
	Expression string `yaml:"expression" jsonschema:"required,minLength=1,maxLength=10240"`
}

// FileAttribute is an attribute as a ResourceSlice has it: one of the fields.
type FileAttribute struct {
	// String is a text of 1 to 64 bytes. An attribute has one of string, int and bool.
	String *string `yaml:"string" jsonschema:"maxLength=64"`
	// Int is a whole number.
	Int *int64 `yaml:"int"`
	// Bool is true or false.
	Bool *bool `yaml:"bool"`
}

// Quantity is a number as Kubernetes writes them: 4096, 400G.
type Quantity struct{ resource.Quantity }

// UnmarshalYAML implements yaml.Unmarshaler.
func (q *Quantity) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := v1alpha1.ParseQuantity(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		// In the decoder's words, which explain translates.
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: cannot unmarshal %s `%s` into quantity", node.Line, node.ShortTag(), node.Value)}}
	}
	q.Quantity = parsed
	return nil
}
