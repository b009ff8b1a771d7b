package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestStale: the chart has what the type of the configuration and its comments make.
func TestStale(t *testing.T) {
	t.Chdir("../..")
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is stale: go run ./tools/schema", file)
	}
}

// TestDescribed: every field of the configuration has a description that begins with no name of
// Go, and objects take no other fields.
func TestDescribed(t *testing.T) {
	t.Chdir("../..")
	s, err := configuration()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	described(t, "config", tree)
}

func described(t *testing.T, path string, s map[string]any) {
	text, _ := s["description"].(string)
	name := path[strings.LastIndex(path, ".")+1:]
	if !strings.HasSuffix(text, ".") || strings.EqualFold(strings.Fields(text + " ")[0], name) {
		t.Errorf("%s: description %q", path, text)
	}
	properties, _ := s["properties"].(map[string]any)
	if properties != nil && s["additionalProperties"] != false {
		t.Errorf("%s takes any field", path)
	}
	for name, p := range properties {
		described(t, path+"."+name, p.(map[string]any))
	}
	for key, suffix := range map[string]string{"items": "[]", "additionalProperties": ".*"} {
		if inner, ok := s[key].(map[string]any); ok && inner["properties"] != nil {
			described(t, path+suffix, inner)
		}
	}
}
