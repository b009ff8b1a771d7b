// Schema writes the schema of the chart's values.
//
//	go run ./tools/schema           write deployments/helm/dra-driver-rdma/values.schema.json
//	go run ./tools/schema --print   print it
//
// What is of the chart stands in values.schema.json beside this file. The value config is
// the driver's configuration file, and deviceClasses.extra[].config is what classes say, so their
// parts are made of these types: fields, their comments as descriptions, and bounds.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/tools/internal/configschema"
	"github.com/rdma-dev/dra-driver-rdma/tools/internal/generator"
)

// file is where the chart has it, from the root of the checkout.
const file = "deployments/helm/dra-driver-rdma/values.schema.json"

//go:embed values.schema.json
var chart string

func main() { generator.Main("schema", "the schema of the chart's values", file, generate) }

// parts are made of types, each in the place of a comment.
var parts = []struct {
	place, description string
	schema             func() (*jsonschema.Schema, error)
}{
	{`{"$comment": "made of the driver's configuration type"}`, "The driver's configuration file, docs/reference/configuration.md.", configschema.DriverConfig},
	{`{"$comment": "made of the type HCAClassConfig"}`, "What a class allows and sets, docs/claims.md.", configschema.HCAClassConfig},
	{`{"$comment": "made of the pattern of locked memory"}`, "", lockedLimit},
	{`{"$comment": "made of the hook's policies"}`, "", onDenied},
}

func lockedLimit() (*jsonschema.Schema, error) {
	return &jsonschema.Schema{Type: "string", Pattern: configschema.LockedPattern("unlimited|inherit")}, nil
}

func onDenied() (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{Type: "string"}
	for _, policy := range args.OnDeniedValues {
		s.Enum = append(s.Enum, policy)
	}
	return s, nil
}

// generate returns the schema of all values. It reads the sources of the checkout that it
// runs in, for their comments.
func generate() ([]byte, error) {
	out := chart
	for _, part := range parts {
		s, err := part.schema()
		if err != nil {
			return nil, fmt.Errorf("make a part of the schema: %w", err)
		}
		s.Description = part.description
		data, err := json.MarshalIndent(s, "    ", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode a part of the schema: %w", err)
		}
		before, after, ok := strings.Cut(out, part.place)
		if !ok {
			return nil, fmt.Errorf("tools/schema/values.schema.json has no %s", part.place)
		}
		out = before + string(data) + after
	}
	return []byte(out), nil
}
