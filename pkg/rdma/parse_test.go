package rdma

import (
	"encoding/json"
	"fmt"
	"path"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// outcome and found say what a parser makes of a text.
func outcome[T any](parse func(string) (T, error)) func(string) string {
	return func(text string) string {
		got, err := parse(text)
		if err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprint(got)
	}
}

func found[T any](parse func(string) (T, bool)) func(string) string {
	return func(text string) string {
		got, ok := parse(text)
		if !ok {
			return "none"
		}
		return fmt.Sprint(got)
	}
}

// TestParse: the strings are what kernels print, where the case says nothing else.
func TestParse(t *testing.T) {
	parsers := map[string]func(string) string{
		"GUID": outcome(ParseGUID), "GID_prefix": outcome(ParseGIDPrefix), "rate": outcome(ParseRate),
		"word": outcome(word),
		"device_number": outcome(func(text string) (string, error) {
			major, minor, err := ParseDev(text)
			return fmt.Sprintf("major %d, minor %d", major, minor), err
		}),
		"PCI_address": found(parsePCIAddress), "network_namespace_mode": outcome(parseNetnsMode),
		"number": outcome(func(text string) (string, error) {
			n, err := number(text)
			data, _ := json.Marshal(n)
			return string(data), err
		}),
		"representor":        func(text string) string { return fmt.Sprint(representor.MatchString(text)) },
		"legacy_representor": func(text string) string { return fmt.Sprint(legacyRepresentor.MatchString(text)) },
		"PCI_ID":             outcome(parsePCIID), "EUI-64": found(eui64),
	}
	golden.Cases(t, "parse", func(t *testing.T, texts []string) string {
		parse, out := parsers[path.Base(t.Name())], ""
		for _, text := range texts {
			out += fmt.Sprintf("%q: %s\n", text, parse(text))
		}
		return out
	})
}

func TestGUIDText(t *testing.T) {
	var g GUID
	err := g.UnmarshalText([]byte("0011:7501:0167:4a2c"))
	test.True(t, err == nil && g == 0x0011750101674a2c, test.Sprintf("GUID %s, error %v", g, err))
	text, err := g.MarshalText()
	test.True(t, err == nil && string(text) == "0011:7501:0167:4a2c", test.Sprintf("text %q, error %v", text, err))
	test.Error(t, g.UnmarshalText([]byte("mlx5_0")))
}

// String returns the kernel's form ("%04x:%02x:%02x.%d", drivers/pci/probe.c).
func (a pciAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", uint64(a>>16), uint64(a>>8&0xff), uint64(a>>3&0x1f), uint64(a&7))
}
