package configure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

const containerdRestart = "systemctl restart containerd"

// containerd edits a file of containerd. plugin is the section that gets the setting.
type containerd struct{ plugin string }

const (
	cdiKey = "enable_cdi"
	// mark ends the lines of this package, so that disable finds them.
	mark = " # set by cdi-gen configure"
)

// planContainerd plans the edit of the file where the setting takes effect. In containerd 1.7, an imported file
// replaces the whole section of the main file; in 2.x it wins with each of its keys.
func planContainerd(root string, target runtimes.Target) (*Plan, error) {
	host := hostfs.DirFS(root)
	now, err := read(host, target, runtimeconf.User{})
	if err != nil {
		return nil, err
	}
	if now.NoCRI {
		return &Plan{Notes: []string{now.Main + " disables the CRI plugin, which alone reads the setting: no change"}}, nil
	}
	if now.On {
		return unchanged(now, target), nil
	}
	if now.Version < 2 && len(now.Files) > 0 && len(bytes.TrimSpace(now.Files[0].Text)) > 0 {
		return nil, refusef("its configuration has version 1; say version = 2 in it (see containerd's docs/PLUGINS.md), " +
			"and try again")
	}
	files := slices.Clone(now.Files)
	if len(files) == 0 {
		files = []runtimeconf.File{{Path: now.Main}}
	}
	slices.Reverse(files[1:]) // the main file first, then those that win over others
	var errs []error
	for _, f := range files {
		for _, plugin := range []string{runtimeconf.CRIPlugin2, runtimeconf.CRIPlugin3} {
			plan, err := edited(root, f.Path, containerdRestart, containerd{plugin})
			if err == nil && plan.Path != "" && takesEffect(host, target, plan) {
				plan.Notes, plan.Dirs = otherDirs(now, target), now.Dirs
				if f.Path != now.Main {
					plan.Notes = append(plan.Notes, fmt.Sprintf("%s has the last word on the CRI plugin, so the setting goes "+
						"there; if a program writes that file again, run configure again", f.Path))
				}
				return plan, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, refusef("no edit of %s makes containerd %s read specs; the last word on the CRI plugin has %s (%w): "+
		"set %s = true there yourself",
		now.Main, target.Version, cmp.Or(now.OnFile, now.Main), errors.Join(errs...), cdiKey)
}

// takesEffect reports whether containerd reads specs after a change. The backup may match a pattern of the imports.
func takesEffect(host fs.ReadLinkFS, target runtimes.Target, plan *Plan) bool {
	instead := map[string][]byte{plan.Path: plan.New}
	if backup := plan.Backup(); backup != "" {
		instead[backup] = plan.Old
	}
	after, err := runtimeconf.Read(runtimeconf.Host{ReadLinkFS: host, Instead: instead}, target, runtimeconf.User{})
	return err == nil && after.On
}

// enable implements editor.
func (c containerd) enable(old []byte) ([]byte, error) {
	text, tree, err := c.decode(old)
	if err != nil {
		return nil, err
	}
	section := child(child(tree, "plugins"), c.plugin)
	if section[cdiKey] == true {
		return old, nil
	}
	section[cdiKey] = true
	return checkTOML(setKey(string(text), c.plugin), tree)
}

// decode returns the text to edit and its meaning. Without a file the text is the smallest file.
func (containerd) decode(old []byte) ([]byte, map[string]any, error) {
	text := old
	if len(bytes.TrimSpace(old)) == 0 {
		text = []byte("version = 2\n")
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		return nil, nil, refusef("it is no TOML (%w): repair it first", err)
	}
	return text, tree, nil
}

// disable implements editor.
func (containerd) disable(current, backup []byte) ([]byte, error) {
	for _, plugin := range []string{runtimeconf.CRIPlugin2, runtimeconf.CRIPlugin3} {
		if ours, err := (containerd{plugin}).enable(backup); err == nil && bytes.Equal(current, ours) {
			return backup, nil
		}
	}
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
