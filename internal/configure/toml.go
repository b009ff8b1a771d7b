package configure

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

const containerdFile = "/etc/containerd/config.toml"

// containerd edits config.toml. onByDefault says whether the release reads specs without the setting.
type containerd struct{ onByDefault bool }

const (
	cdiKey = "enable_cdi"
	// mark ends the lines of this package, so that disable finds them.
	mark = " # set by cdi-gen configure"
)

// criPlugin returns the plugin with the setting, by the version of the configuration.
func criPlugin(version int64) (string, error) {
	switch {
	case version < 2:
		return "", refusef("its configuration has version 1; say version = 2 in it (see containerd's " +
			"docs/PLUGINS.md), and try again")
	case version == 2:
		return "io.containerd.grpc.v1.cri", nil
	}
	return "io.containerd.cri.v1.runtime", nil
}

// enable implements editor.
func (c containerd) enable(old []byte) ([]byte, error) {
	text, tree, err := c.decode(old)
	if err != nil {
		return nil, err
	}
	version, _ := tree["version"].(int64)
	plugin, err := criPlugin(version)
	if err != nil && c.onByDefault && !bytes.Contains(old, []byte(cdiKey)) {
		return old, nil
	} else if err != nil {
		return nil, err
	}
	if disabled, _ := tree["disabled_plugins"].([]any); slices.Contains(disabled, any("cri")) ||
		slices.Contains(disabled, any(plugin)) {
		return old, nil // nobody reads the setting: such a containerd is Docker's
	}
	plugins := child(tree, "plugins")
	section := child(plugins, plugin)
	switch on, set := section[cdiKey]; {
	case on == true, !set && c.onByDefault:
		return old, nil
	}
	section[cdiKey] = true
	return checkTOML(setKey(string(text), plugin), tree)
}

// decode returns the text to edit and its meaning. Without a file the text is the smallest file.
func (containerd) decode(old []byte) ([]byte, map[string]any, error) {
	text := old
	if len(bytes.TrimSpace(old)) == 0 {
		text = []byte("version = 2\n")
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		return nil, nil, refusef("it is no TOML (%w); containerd would not start with it: repair it first", err)
	}
	return text, tree, nil
}

// disable implements editor.
func (containerd) disable(current, _ []byte) ([]byte, error) {
	var out strings.Builder
	for line := range strings.Lines(string(current)) {
		before, after, ours := strings.Cut(line, mark)
		if !ours {
			out.WriteString(line)
			continue
		}
		if was, replaced := strings.CutPrefix(strings.TrimSpace(after), "; before: "); replaced {
			indent := before[:len(before)-len(strings.TrimLeft(before, " \t"))]
			out.WriteString(indent + was + "\n")
		}
	}
	if err := toml.Unmarshal([]byte(out.String()), &map[string]any{}); err != nil {
		return nil, refusef("without the line it would be no TOML (%w): take %s out yourself", err, cdiKey)
	}
	return []byte(out.String()), nil
}

// child returns a table of a table, and makes a missing one.
func child(tree map[string]any, name string) map[string]any {
	table, ok := tree[name].(map[string]any)
	if !ok {
		table = map[string]any{}
		if tree[name] == nil {
			tree[name] = table
		}
	}
	return table
}

var (
	anySection = regexp.MustCompile(`^\s*\[`)
	keyLine    = regexp.MustCompile(`^(\s*)(` + cdiKey + `\s*=\s*(?:true|false))\s*(?:#.*)?$`)
)

// setKey sets the key in the section of a plugin: it replaces the line, or adds one below the section's header, or
// adds the section at the end.
func setKey(text, plugin string) string {
	header := regexp.MustCompile(`^\s*\[\s*plugins\s*\.\s*["']` + regexp.QuoteMeta(plugin) + `["']\s*\]\s*(?:#.*)?$`)
	lines := strings.SplitAfter(text, "\n")
	start := slices.IndexFunc(lines, func(line string) bool { return header.MatchString(strings.TrimRight(line, "\r\n")) })
	if start < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + fmt.Sprintf("[plugins.%q]\n  %s = true%s\n", plugin, cdiKey, mark)
	}
	for i := start + 1; i < len(lines) && !anySection.MatchString(lines[i]); i++ {
		if m := keyLine.FindStringSubmatch(strings.TrimRight(lines[i], "\r\n")); m != nil {
			lines[i] = m[1] + cdiKey + " = true" + mark + "; before: " + m[2] + "\n"
			return strings.Join(lines, "")
		}
	}
	if !strings.HasSuffix(lines[start], "\n") {
		lines[start] += "\n"
	}
	return strings.Join(slices.Insert(lines, start+1, "  "+cdiKey+" = true"+mark+"\n"), "")
}

// checkTOML returns an edited text if it says exactly what it should.
func checkTOML(text string, want map[string]any) ([]byte, error) {
	got := map[string]any{}
	err := toml.Unmarshal([]byte(text), &got)
	if err == nil && reflect.DeepEqual(got, want) {
		return []byte(text), nil
	}
	return nil, refusef("it cannot be edited without changing anything else (%v): set %s = true in the section of the "+
		"CRI plugin yourself", err, cdiKey)
}
