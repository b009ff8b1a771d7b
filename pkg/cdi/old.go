package cdi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// Most runtimes have an older CDI library than this program. Below is what an older one does otherwise with a spec,
// whatever its CDI version. TestLibraries of internal/cdigen/runtimes asks the libraries.

// sturdy is the first release of the CDI library without these faults.
const sturdy = "1.1.1"

// ErrPanics means that a CDI library panics when it reads the file, and takes its runtime along.
var ErrPanics = errors.New("the CDI library panics")

// CheckKind rejects a kind with a vendor or class of one letter. Older libraries panic when they read the file: podman
// then fails for every CDI device of the host, and daemons crash.
func CheckKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	for _, part := range []struct{ name, text string }{{"vendor", vendor}, {"class", class}} {
		if len(part.text) == 1 {
			return fmt.Errorf("kind %q: its %s is one letter, and before %s %w on it, so the runtime fails for every device: "+
				"use two letters or more", kind, part.name, sturdy, ErrPanics)
		}
	}
	return nil
}

// oldBools are the words that YAML 1.1 takes for a boolean, and YAML 1.2 for a text.
var oldBools = []string{"y", "n", "yes", "no", "on", "off"}

// plainNumber is a number that every YAML version writes in the same way.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})$`)

// notTexts are the fields that are no texts, so that they mean the same in both YAML versions.
var notTexts = []string{"major", "minor", "fileMode", "uid", "gid", "timeout", "additionalGids", "enableCMT",
	"enableMBM", "enableMonitoring"}

// checkScalars rejects texts without quotes that older libraries read otherwise: a device that is called on is called
// true there, and 0x10 is 16.
func checkScalars(n *yaml.Node) error {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains(notTexts, n.Content[i-1].Value) {
			continue
		}
		if err := checkScalars(child); err != nil {
			return err
		}
	}
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return nil
	}
	odd := slices.Contains(oldBools, strings.ToLower(n.Value))
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
		odd = !plainNumber.MatchString(n.Value)
	}
	if odd {
		return fmt.Errorf("line %d: %.32s stands without quotes; CDI libraries before %s read another text: write %.32q",
			n.Line, n.Value, sturdy, n.Value)
	}
	return nil
}
