// Package planted breaks the rule "yaml": it decodes what may be anything.
package planted

import (
	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

var write = yaml.Marshal

func read(data []byte, into any) error {
	if err := kyaml.Unmarshal(data, into); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}
