// Schema writes the schema of the chart's values.
//
//	go run ./tools/schema           write deployments/helm/dra-driver-rdma/values.schema.json
//	go run ./tools/schema --print   print it
//
// What is of the chart stands in values.schema.json beside this file. The value config is
// the driver's configuration file, so its part is made of that file's type: fields, their
// comments as descriptions, and bounds (package policy).
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/tools/internal/configschema"
	"github.com/rdma-dev/dra-driver-rdma/tools/internal/generator"
)

// file is where the chart has it, from the root of the checkout.
const file = "deployments/helm/dra-driver-rdma/values.schema.json"

//go:embed values.schema.json
var chart string

// place is where the part of the configuration goes.
const place = `{"$comment": "made of the driver's configuration type"}`

func main() { generator.Main("schema", "the schema of the chart's values", file, generate) }

// generate returns the schema of all values. It reads the sources of the checkout that it
// runs in, for their comments.
func generate() ([]byte, error) {
	s, err := configschema.DriverConfig()
	if err != nil {
		return nil, fmt.Errorf("make the schema of the configuration: %w", err)
	}
	s.Description = "The driver's configuration file, docs/reference/configuration.md."
	part, err := json.MarshalIndent(s, "    ", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema of the configuration: %w", err)
	}
	before, after, ok := strings.Cut(chart, place)
	if !ok {
		return nil, fmt.Errorf("tools/schema/values.schema.json has no %s", place)
	}
	return []byte(before + string(part) + after), nil
}
