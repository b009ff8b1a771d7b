// Package kmod reads the index that depmod makes of a kernel's modules.
package kmod

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Index says what each module needs.
type Index struct {
	// needs maps a module's name to its file and those that it needs, its own
	// first and a module before what it needs itself.
	needs   map[string][]string
	builtin map[string]bool
}

// Read reads modules.dep and modules.builtin of a directory /lib/modules/VERSION.
func Read(dir fs.FS) (Index, error) {
	dep, err := fs.ReadFile(dir, "modules.dep")
	if err != nil {
		return Index{}, fmt.Errorf("read the index of the modules: %w", err)
	}
	builtin, err := fs.ReadFile(dir, "modules.builtin")
	if err != nil {
		return Index{}, fmt.Errorf("read the index of the built-in modules: %w", err)
	}
	return Parse(string(dep), string(builtin)), nil
}

// Parse reads the text of modules.dep and modules.builtin.
func Parse(dep, builtin string) Index {
	x := Index{needs: map[string][]string{}, builtin: map[string]bool{}}
	for line := range strings.Lines(dep) {
		file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		x.needs[name(file)] = append([]string{file}, strings.Fields(needs)...)
	}
	for line := range strings.Lines(builtin) {
		x.builtin[name(strings.TrimSpace(line))] = true
	}
	return x
}

// name is the kernel's name of the module in a file: "kernel/a/nls-utf8.ko.xz" is
// nls_utf8.
func name(file string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".xz"), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// Files lists the files of the named modules and of all they need, each once and
// behind what it needs. A module that is part of the kernel has no file.
func (x Index) Files(names ...string) ([]string, error) {
	var files []string
	for _, name := range names {
		needs, ok := x.needs[name]
		if !ok && !x.builtin[name] {
			return nil, fmt.Errorf("find the module %q: the kernel has none", name)
		}
		for _, file := range slices.Backward(needs) {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, nil
}
