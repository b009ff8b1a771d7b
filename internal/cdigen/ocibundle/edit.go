package ocibundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// Edit returns a configuration with the changes that a function makes to it. Everything else stays, including fields
// that the Go types of the OCI specification do not know. It returns the same bytes if nothing changes.
func Edit(data []byte, change func(*oci.Spec) error) ([]byte, error) {
	var spec oci.Spec
	var raw any
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w; is this a bundle of an OCI runtime?", err)
	}
	if err := decode(data, &raw); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if _, ok := raw.(map[string]any); !ok || spec.Version == "" {
		return nil, fmt.Errorf("decode the configuration: it has no ociVersion; is this a bundle of an OCI runtime?")
	}
	before, err := generic(&spec)
	if err != nil {
		return nil, err
	}
	if err := change(&spec); err != nil {
		return nil, err
	}
	after, err := generic(&spec)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, after) {
		return data, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t") // as runc spec writes it
	if err := enc.Encode(overlay(raw, before, after)); err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return out.Bytes(), nil
}

// decode keeps numbers as they are.
func decode(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

// generic returns a spec as maps and lists.
func generic(spec *oci.Spec) (v any, err error) {
	data, err := json.Marshal(spec)
	if err == nil {
		err = decode(data, &v)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return v, nil
}

// overlay returns raw with the difference between before and after. before is raw without the fields that Go does not
// know.
func overlay(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch after := after.(type) {
	case map[string]any:
		if out, ok := raw.(map[string]any); ok {
			return overlayMap(out, before, after)
		}
	case []any:
		return overlayList(raw, before, after)
	}
	return after
}

func overlayMap(out map[string]any, before any, after map[string]any) map[string]any {
	old, _ := before.(map[string]any)
	for key := range old {
		if _, stays := after[key]; !stays {
			delete(out, key)
		}
	}
	for key, value := range after {
		out[key] = overlay(out[key], old[key], value)
	}
	return out
}

// overlayList keeps the raw form of each element that is not changed. An element may have moved.
func overlayList(raw, before any, after []any) []any {
	kept, _ := raw.([]any)
	old, _ := before.([]any)
	taken := make([]bool, len(old))
	out := make([]any, len(after))
	for i, value := range after {
		out[i] = value
		for j := range min(len(old), len(kept)) {
			if !taken[j] && reflect.DeepEqual(old[j], value) {
				out[i], taken[j] = kept[j], true
				break
			}
		}
	}
	return out
}
