package release

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// material is a Go module that programs are linked from, with its license.
type material struct {
	*debug.Module
	spdx  []string // identifiers of https://spdx.org/licenses, at least one
	texts []string // the files with licenses and notices
}

// materialsOf returns the modules of programs, the standard library among them, in the order of their paths.
func (r *run) materialsOf(ctx context.Context, programs ...string) ([]material, error) {
	modules := map[string]*debug.Module{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		modules["std"] = &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m
		}
	}
	dirs, err := r.moduleDirs(ctx)
	if err != nil {
		return nil, err
	}
	var out []material
	for _, m := range modules {
		licensed, err := licenses(m, dirs[m.Path])
		if err != nil {
			return nil, err
		}
		out = append(out, licensed)
	}
	slices.SortFunc(out, func(a, b material) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// moduleDirs returns the directory of each module that the programs are linked from, and the toolchain's as "std".
func (r *run) moduleDirs(ctx context.Context) (map[string]string, error) {
	if r.dirs != nil {
		return r.dirs, nil
	}
	root, err := command(ctx, r.Source, buildEnv("linux", "amd64"), "go", "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("find the toolchain's license: %w", err)
	}
	dirs := map[string]string{"std": strings.TrimSpace(string(root))}
	for _, goos := range []string{"linux", "darwin"} {
		list, err := command(ctx, r.Source, buildEnv(goos, "amd64"), "go", "list", "-deps",
			"-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", "./cmd/...")
		if err != nil {
			return nil, fmt.Errorf("find the modules' licenses: %w", err)
		}
		for line := range strings.Lines(string(list)) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			dirs[path] = dir
		}
	}
	r.dirs = dirs
	return dirs, nil
}

// licenseFile is the name of a file with a license or a notice.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-.].*)?$`)

// licenses reads the license files at the top of a module. It returns an error for a module without a known
// license, because the packages must name it.
func licenses(m *debug.Module, dir string) (material, error) {
	out := material{Module: m}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, fmt.Errorf("find the license of %s: %w; run go mod download", m.Path, err)
	}
	for _, e := range entries {
		if !licenseFile.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return out, fmt.Errorf("read the license of %s: %w", m.Path, err)
		}
		out.texts = append(out.texts, strings.TrimSpace(string(text)))
		out.spdx = append(out.spdx, identify(string(text))...)
	}
	slices.Sort(out.spdx)
	out.spdx = slices.Compact(out.spdx)
	if len(out.spdx) == 0 {
		return out, fmt.Errorf("find the license of %s in %q: no file with a license that packaging/release knows; "+
			"add its phrase to license.go", m.Path, dir)
	}
	return out, nil
}

// phrases are words of a license, in lower case. Both stand in its text, and no other license has both.
var phrases = []struct{ spdx, first, second string }{
	{"Apache-2.0", "apache license", "version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy", ""},
	{"ISC", "permission to use, copy, modify, and", "distribute this software for any purpose with or without fee"},
	{"MPL-2.0", "mozilla public license", "version 2.0"},
	{"BSD-3-Clause", "redistribution and use in source and binary forms", "used to endorse"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms", "this list of conditions"},
}

// identify returns the licenses in a text.
func identify(text string) []string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	var out []string
	for _, p := range phrases {
		if p.spdx == "BSD-2-Clause" && slices.Contains(out, "BSD-3-Clause") {
			continue // one clause more
		}
		if strings.Contains(text, p.first) && strings.Contains(text, p.second) {
			out = append(out, p.spdx)
		}
	}
	return out
}

// legal returns the files about licenses, and Debian's changelog.
func (r *run) legal(ctx context.Context, bin string) ([]file, error) {
	materials, err := r.materialsOf(ctx, filepath.Join(bin, "cdi-gen"), filepath.Join(bin, "rdma-hook"))
	if err != nil {
		return nil, err
	}
	notices, err := r.made(docDir+"/third-party.txt", thirdParty(materials))
	if err != nil {
		return nil, err
	}
	notices.only = "deb tar"
	ofRPM := notices
	ofRPM.path, ofRPM.only = licenseDir+"/third-party.txt", "rpm"
	copyright, err := r.made(docDir+"/copyright", r.copyright(materials))
	if err != nil {
		return nil, err
	}
	changes, err := compress(fmt.Appendf(nil, "%s (%s-1) unstable; urgency=medium\n\n"+
		"  * Release: %s/releases/tag/%s\n\n -- %s  %s\n",
		Name, r.version, homepage, r.Version, maintainer, r.Date.Format(time.RFC1123Z)))
	if err != nil {
		return nil, err
	}
	changelog, err := r.made(docDir+"/changelog.Debian.gz", changes)
	if err != nil {
		return nil, err
	}
	copyright.only, changelog.only = "deb", "deb"
	return []file{notices, ofRPM, copyright, changelog}, nil
}

// thirdParty is the licenses and notices of the modules in the programs, each text once. Most of the licenses want
// them beside a program.
func thirdParty(materials []material) []byte {
	var b strings.Builder
	b.WriteString("The programs are linked from the Go modules below, under these licenses.\n")
	var texts []string
	of := map[string][]string{}
	for _, m := range materials {
		name := m.Path + " " + m.Version
		fmt.Fprintf(&b, "\n%s: %s", name, strings.Join(m.spdx, " and "))
		for _, text := range m.texts {
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], name)
		}
	}
	b.WriteString("\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s:\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	return []byte(b.String())
}

// copyright is Debian's file in https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
func (r *run) copyright(materials []material) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dra-driver-rdma
Source: %s
Comment: The programs contain these Go modules. %s/third-party.txt has
 their copyright notices and licenses.
`, homepage, docDir)
	for _, m := range materials {
		fmt.Fprintf(&b, " %s: %s\n", m.Path, strings.Join(m.spdx, " and "))
	}
	fmt.Fprintf(&b, `
Files: *
Copyright: %d %s
License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the full text.
`, r.Date.Year(), authors)
	return []byte(b.String())
}
