package importrules

import (
	"fmt"
	"go/ast"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rule is what packages must not do.
type Rule struct {
	// Name is that of the planted violation; Why is the reason, for who meets it.
	Name, Why string
	// Of are the packages under the rule, But those of them that are free.
	Of, But []string
	// Imports must not be imported by the package itself, Links not by any package
	// that it is linked with.
	Imports, Links []string
	// Except are free to be used.
	Except []string
	// Below makes the rule that of a floor: of this module, its packages import one another and these.
	Below []string
	// Names are functions and variables that must not be used, by import path and name: "os.Rename", "net/http.Get".
	Names []string
	// Most is the largest number of methods that a type may have, 0 for any: its own, those of embedded types, and the
	// functions of its package whose first parameter it is, contexts aside. Large are the types that may have
	// more, with their numbers. The list only shrinks.
	Most  int
	Large map[string]int
}

// Violations returns a line for each way in which the packages of g break the rule.
func (r Rule) Violations(g Graph) ([]string, error) {
	var out []string
	for _, p := range g.Own() {
		if !g.matches(p.ImportPath, r.Of) || g.matches(p.ImportPath, r.But) {
			continue
		}
		if err := p.parse(); err != nil {
			return nil, err
		}
		for _, found := range slices.Concat(r.chains(g, p), r.uses(p), r.large(g, p)) {
			out = append(out, found+": "+r.Why)
		}
	}
	return out, nil
}

// chains walks the imports of a package, nearest first, and stops at what is banned: what a banned package links is
// not listed.
func (r Rule) chains(g Graph, p *Package) []string {
	var found []string
	seen := map[string]bool{p.ImportPath: true}
	for queue := [][]string{{p.ImportPath}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		at := g[chain[len(chain)-1]]
		if at == nil {
			continue
		}
		for _, path := range at.Imports {
			if seen[path] {
				continue
			}
			seen[path] = true
			next := append(chain[:len(chain):len(chain)], path)
			if r.banned(g, path, len(next) == 2) {
				found = append(found, strings.Join(next, " imports "))
			} else {
				queue = append(queue, next)
			}
		}
	}
	return found
}

func (r Rule) banned(g Graph, path string, direct bool) bool {
	if g.matches(path, r.Except) {
		return false
	}
	return g.matches(path, r.Links) || direct && g.matches(path, r.Imports)
}

// uses finds the uses of Names in a package.
func (r Rule) uses(p *Package) []string {
	var out []string
	for i, file := range p.files {
		imported := importNames(file)
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			// An identifier with an object is a variable that hides the package.
			if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil && imported[id.Name] != "" {
				if used := imported[id.Name] + "." + sel.Sel.Name; slices.Contains(r.Names, used) {
					line := p.fset.Position(n.Pos()).Line
					out = append(out, fmt.Sprintf("%s: %s:%d uses %s", p.ImportPath, filepath.Base(p.GoFiles[i]), line, used))
				}
			}
			return true
		})
	}
	return out
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importNames maps the names that a file has for packages to their paths.
func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it
		}
		name := path.Base(importPath)
		if majorVersion.MatchString(name) { // of a module, and no part of the package's name
			name = path.Base(path.Dir(importPath))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = importPath
	}
	return names
}
