// Reference writes the reference of all configuration: the fields of the driver's file, and
// of the parameters of claims and classes.
//
//	go run ./tools/reference           write docs/reference/configuration.md
//	go run ./tools/reference --print   print it
//
// It is made of the Go types: what a field means is its comment, and the default is the
// comment's last sentence, if that begins with "Defaults to".
package main

import (
	"bytes"
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/rdma-dev/dra-driver-rdma/tools/internal/configschema"
	"github.com/rdma-dev/dra-driver-rdma/tools/internal/generator"
)

// file is the page, from the root of the checkout.
const file = "docs/reference/configuration.md"

func main() { generator.Main("reference", "the reference of all configuration", file, generate) }

// kind is a section of the page.
type kind struct {
	name, where string
	schema      func() (*jsonschema.Schema, error)
}

var kinds = []kind{
	{"DriverConfig", "The driver's file on a node, the chart's value `config` without `apiVersion` and `kind`. [The policy](../policy.md) has examples\nand explains rules, groups, rails and taints.", configschema.DriverConfig},
	{"HCAConfig", "In `spec.devices.config[].opaque.parameters` of a ResourceClaim or ResourceClaimTemplate. [Claims](../claims.md) has\nexamples, and who wins where several say something.", configschema.HCAConfig},
	{"HCAClassConfig", "In `spec.config[].opaque.parameters` of a DeviceClass, and nowhere else ([claims](../claims.md#hcaclassconfig)).", configschema.HCAClassConfig},
}

const head = `# Configuration: all fields

Every kind begins with ` + "`apiVersion: rdma.dev/v1alpha1`" + ` and its
` + "`kind`" + `. Reading is strict: an unknown field and a value out of its bounds are errors that name the field. You may omit a
field that is not required. If its default is empty, nothing is set then.
`

// generate returns the page.
func generate() ([]byte, error) {
	var page bytes.Buffer
	page.WriteString(head)
	for _, k := range kinds {
		s, err := k.schema()
		if err != nil {
			return nil, fmt.Errorf("make the schema of %s: %w", k.name, err)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | value | default | meaning |\n|---|---|---|---|\n", k.name, k.where)
		if err := rows(&page, "", s); err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.name, err)
		}
	}
	return page.Bytes(), nil
}
