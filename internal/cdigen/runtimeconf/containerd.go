package runtimeconf

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// The CRI plugin of containerd, by the version of the configuration: 1, 2, and from 3 on.
const (
	CRIPlugin1 = "cri"
	CRIPlugin2 = "io.containerd.grpc.v1.cri"
	CRIPlugin3 = "io.containerd.cri.v1.runtime"
)

const (
	cdiKey  = "enable_cdi"
	dirsKey = "cdi_spec_dirs"
)

// maxImports bounds the files of a configuration.
const maxImports = 256

// containerdFile is a decoded file of containerd.
type containerdFile struct {
	path     string
	version  int64
	plugins  map[string]any
	disabled []any
}

// readContainerd merges the files of containerd as LoadConfig of that release does
// (cmd/containerd/server/config/config.go; before 2.0, services/server/config/config.go).
func (c *Config) readContainerd(host Host, t runtimes.Target) error {
	args := host.started("containerd", "containerd.service").args
	c.Main = last(args.values("--config", "-c"), "/etc/containerd/config.toml")
	files, err := c.loadContainerd(host)
	if err != nil {
		return err
	}
	m := merge17(files)
	if t.AtLeast(2) {
		m = merge2(files, t)
	}
	if m.version > 2 && !t.AtLeast(2) || m.version > 3 && !t.AtLeast(2, 3) {
		return brokenf("%s does not know version %d of its configuration, which %q has", t, m.version, c.Main)
	}
	plugin := CRIPlugin3
	if !t.AtLeast(2) {
		if bad := m.unqualified(); m.version == 2 && bad != "" {
			return brokenf("%s takes no plugin called %q in version 2 of its configuration", t, bad)
		}
		if plugin = CRIPlugin2; m.version < 2 {
			plugin = CRIPlugin1
		}
	}
	for _, name := range []string{"cri", CRIPlugin1, CRIPlugin2, CRIPlugin3} {
		c.NoCRI = c.NoCRI || slices.Contains(m.disabled, any(name))
	}
	section, _ := m.plugins[plugin].(map[string]any)
	c.OnFile = m.from[plugin]
	if on, ok := section[cdiKey].(bool); ok && !t.AtLeast(2, 3) {
		c.On, c.OnFile = on, m.from[plugin+cdiKey]
	}
	if dirs, ok := section[dirsKey].([]any); ok {
		c.Dirs, c.DirsFile = texts(dirs), m.from[plugin+dirsKey]
	}
	c.Version = m.version
	return nil
}

// loadContainerd reads the main file and what it imports, in containerd's order: the imports of a file come after all
// files that are already waiting.
func (c *Config) loadContainerd(host Host) ([]containerdFile, error) {
	var files []containerdFile
	loaded := map[string]bool{}
	for pending := []string{c.Main}; len(pending) > 0; {
		name := pending[0]
		pending = pending[1:]
		if loaded[name] {
			continue
		}
		loaded[name] = true
		text, err := host.read(name)
		if err != nil {
			return nil, err
		}
		if text == nil && name == c.Main {
			return nil, nil
		}
		if text == nil {
			return nil, brokenf("%q, which the configuration of containerd imports, does not exist", name)
		}
		var tree struct {
			Version  int64          `toml:"version"`
			Imports  []string       `toml:"imports"`
			Plugins  map[string]any `toml:"plugins"`
			Disabled []any          `toml:"disabled_plugins"`
		}
		if err := decode(name, text, &tree); err != nil {
			return nil, err
		}
		c.Files = append(c.Files, File{name, text})
		files = append(files, containerdFile{name, tree.Version, tree.Plugins, tree.Disabled})
		if pending = append(pending, host.imports(name, tree.Imports)...); len(pending) > maxImports {
			return nil, brokenf("%q imports more than %d files", c.Main, maxImports)
		}
	}
	return files, nil
}

// imports resolves the imports of a file, as resolveImports of containerd.
func (h Host) imports(parent string, patterns []string) []string {
	var files []string
	for _, name := range patterns {
		if name = path.Clean(name); !path.IsAbs(name) {
			name = path.Join(path.Dir(parent), name)
		}
		if strings.Contains(name, "*") {
			files = append(files, h.glob(name)...)
		} else {
			files = append(files, name)
		}
	}
	return files
}

// glob lists the files that match a pattern, sorted in each directory, as filepath.Glob.
func (h Host) glob(pattern string) []string {
	found := []string{"/"}
	parts := strings.Split(strings.Trim(pattern, "/"), "/")
	for i, part := range parts {
		var next []string
		for _, dir := range found {
			if i < len(parts)-1 && !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			next = append(next, h.matches(dir, part)...)
		}
		if found = next; len(found) > maxImports {
			found = found[:maxImports+1] // the caller refuses as many
		}
	}
	return found
}

// matches lists the entries of a directory that match a pattern.
func (h Host) matches(dir, pattern string) []string {
	names, _ := h.names(dir, true) // filepath.Glob ignores errors as well
	var found []string
	for _, name := range names {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			found = append(found, path.Join(dir, name))
		}
	}
	return found
}

// merged is the configuration after all files. from has the last file with a key of a plugin, or with its section.
type merged struct {
	version  int64
	plugins  map[string]any
	disabled []any
	from     map[string]string
}

var ourKeys = []string{cdiKey, dirsKey}

// note remembers which file a section and its settings come from.
func (m *merged) note(file, plugin string, section any) {
	table, _ := section.(map[string]any)
	m.from[plugin] = file
	for _, key := range ourKeys {
		if _, ok := table[key]; ok {
			m.from[plugin+key] = file
		}
	}
}

// unqualified returns a plugin whose name is none of version 2, "" for none (ValidateV2 of containerd 1.7).
func (m *merged) unqualified() string {
	names := slices.Concat(slices.Sorted(maps.Keys(m.plugins)), texts(m.disabled))
	i := slices.IndexFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "io.containerd.") || strings.Count(name, ".") < 3
	})
	if i < 0 {
		return ""
	}
	return names[i]
}

// merge17 merges as containerd 1.7: the section of a plugin replaces that of an earlier file as a whole.
func merge17(files []containerdFile) merged {
	m := merged{version: 1, plugins: map[string]any{}, from: map[string]string{}}
	for _, f := range files {
		if f.version != 0 {
			m.version = f.version
		}
		m.disabled = append(m.disabled, f.disabled...)
		for plugin, section := range f.plugins {
			m.plugins[plugin] = section
			m.note(f.path, plugin, section)
		}
	}
	return m
}

// merge2 merges as containerd 2: key by key. From 2.3 on it first converts each file to version 4. Until 2.2 it
// converts only the plugins' names of version 1, and in the end the result, if the last file with a version has
// version 2.
func merge2(files []containerdFile, t runtimes.Target) merged {
	converts := t.AtLeast(2, 3)
	m := merged{version: 3, plugins: map[string]any{}, from: map[string]string{}}
	if converts {
		m.version = 4
	}
	for _, f := range files {
		sections := cloneTable(f.plugins)
		if f.version < 2 {
			rename(sections)
		}
		if converts && f.version < m.version {
			migrate(sections, false)
		} else if f.version >= 2 {
			m.version = f.version
		}
		for plugin, section := range sections {
			mergeKey(m.plugins, plugin, section)
			m.note(f.path, plugin, section)
		}
		m.disabled = append(m.disabled, f.disabled...)
	}
	if m.version < 3 {
		for _, key := range migrate(m.plugins, !t.AtLeast(2, 1)) {
			m.from[CRIPlugin3+key] = m.from[CRIPlugin2+key]
		}
	}
	return m
}

// rename gives the plugin of a file of version 1 its name of version 2.
func rename(plugins map[string]any) {
	if section, ok := plugins[CRIPlugin1]; ok {
		delete(plugins, CRIPlugin1)
		plugins[CRIPlugin2] = section
	}
}

// mergeKey merges a value into a table, and tables key by key.
func mergeKey(into map[string]any, key string, value any) {
	section, ok := value.(map[string]any)
	if !ok {
		into[key] = value
		return
	}
	have, ok := into[key].(map[string]any)
	if !ok {
		into[key] = cloneTable(section)
		return
	}
	for k, v := range section {
		mergeKey(have, k, v)
	}
}

func cloneTable(table map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range table {
		mergeKey(out, k, v)
	}
	return out
}

// migrate moves our settings from the plugin's name in version 2 to that of version 3, and returns them. Those that are
// there already stay, but with whole, all of that section goes.
func migrate(plugins map[string]any, whole bool) (keys []string) {
	old, ok := plugins[CRIPlugin2].(map[string]any)
	if !ok {
		return nil
	}
	section, ok := plugins[CRIPlugin3].(map[string]any)
	if !ok || whole {
		section = map[string]any{}
	}
	for _, key := range ourKeys {
		value, has := old[key]
		if _, taken := section[key]; has && !taken {
			section[key] = value
			keys = append(keys, key)
		}
	}
	plugins[CRIPlugin3] = section
	return keys
}

func texts(list []any) []string {
	out := []string{}
	for _, element := range list {
		if text, ok := element.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// last returns the last value, or another one if there is none.
func last(values []string, or string) string {
	if len(values) == 0 {
		return or
	}
	return values[len(values)-1]
}
