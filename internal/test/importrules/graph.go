package importrules

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package is what the go command says of a package.
type Package struct {
	ImportPath string
	Name       string
	Dir        string
	Doc        string
	Standard   bool
	DepOnly    bool // not asked for itself
	GoFiles    []string
	Imports    []string

	fset  *token.FileSet
	files []*ast.File // by GoFiles, once parsed
}

// parse parses the files of the package, once.
func (p *Package) parse() error {
	for _, name := range p.GoFiles[len(p.files):] {
		file, err := parser.ParseFile(p.fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return fmt.Errorf("parse package %s: %w", p.ImportPath, err)
		}
		p.files = append(p.files, file)
	}
	return nil
}

// Graph holds packages and all that they link, by import path.
type Graph map[string]*Package

// Load asks the go command for packages and their dependencies. Patterns are
// relative to dir.
func Load(dir string, patterns ...string) (Graph, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Name,Dir,Doc,Standard,DepOnly,GoFiles,Imports"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages %q in %q: %w: %s", patterns, dir, err, &stderr)
	}
	graph := Graph{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &Package{fset: token.NewFileSet()}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return graph, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages %q in %q: %w", patterns, dir, err)
		}
		graph[p.ImportPath] = p
	}
}

// Own returns the packages that were asked for, in order of path, less those that
// are tools of tests.
func (g Graph) Own() []*Package {
	var out []*Package
	for _, p := range g {
		if !p.DepOnly && !slices.Contains(p.Imports, "testing") {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *Package) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return out
}

// Linked returns the packages beside the standard library's, in order of path.
func (g Graph) Linked() []string {
	var out []string
	for path, p := range g {
		if !p.Standard {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// matches reports whether a package fits one of the patterns.
func (g Graph) matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == "..." {
			p := g[path]
			return p != nil && !p.Standard
		}
		prefix, deep := strings.CutSuffix(pattern, "/...")
		return path == prefix || deep && strings.HasPrefix(path, prefix+"/")
	})
}
