package policy

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// The version and kind of the file.
const (
	APIVersion = hostconfig.APIVersion
	Kind       = "DriverConfig"
)

// file is the configuration file as it is written. docs/policy.md says what each
// field means.
type file struct {
	APIVersion           string `yaml:"apiVersion"`
	Kind                 string `yaml:"kind"`
	hostconfig.Container `yaml:",inline"`
	Partitioning         bool              `yaml:"partitioning"`
	Rules                []ruleEntry       `yaml:"rules"`
	Taints               map[string]string `yaml:"taints"`
	Health               healthEntry       `yaml:"health"`
	PublishInterval      *duration         `yaml:"publishInterval"`
	Groups               []groupEntry      `yaml:"groups"`
}

type ruleEntry struct {
	Name          string                    `yaml:"name"`
	Selectors     []selectorEntry           `yaml:"selectors"`
	Publish       resources.View            `yaml:"publish"`
	Shares        *int64                    `yaml:"shares"`
	DefaultShares *int64                    `yaml:"defaultShares"`
	Bandwidth     *quantity                 `yaml:"bandwidth"`
	Handles       *quantity                 `yaml:"handles"`
	Objects       *quantity                 `yaml:"objects"`
	Rail          *int64                    `yaml:"rail"`
	Rails         *int64                    `yaml:"rails"`
	ResourceName  string                    `yaml:"resourceName"`
	Attributes    map[string]attributeEntry `yaml:"attributes"`
}

type groupEntry struct {
	Name      string          `yaml:"name"`
	Selectors []selectorEntry `yaml:"selectors"`
	Shares    *int64          `yaml:"shares"`
}

// selectorEntry is a selector as a DeviceClass has it.
type selectorEntry struct {
	CEL struct {
		Expression string `yaml:"expression"`
	} `yaml:"cel"`
}

// attributeEntry is an attribute as a ResourceSlice has it: one of the fields.
type attributeEntry struct {
	String *string `yaml:"string"`
	Int    *int64  `yaml:"int"`
	Bool   *bool   `yaml:"bool"`
}

// quantity is a number as Kubernetes writes them: 4096, 400G.
type quantity struct{ resource.Quantity }

// UnmarshalYAML implements yaml.Unmarshaler.
func (q *quantity) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := resource.ParseQuantity(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		// In the decoder's words, which explain translates.
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: cannot unmarshal %s `%s` into quantity", node.Line, node.ShortTag(), node.Value)}}
	}
	q.Quantity = parsed
	return nil
}
