package importrules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Calls keeps packages from using functions and variables of others.
type Calls struct {
	// Name is that of the planted violation; Why is the reason, for who meets it.
	Name, Why string
	// Of are the packages under the rule, But those of them that are free.
	Of, But []string
	// Names are import path and name: "os.Rename", "net/http.Get".
	Names []string
}

// Violations returns a line for each use in the packages of g that breaks the rule.
func (c Calls) Violations(g Graph) ([]string, error) {
	var out []string
	for _, p := range g.Own() {
		if !g.matches(p.ImportPath, c.Of) || g.matches(p.ImportPath, c.But) {
			continue
		}
		for _, file := range p.GoFiles {
			lines, err := c.inFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, fmt.Errorf("look for calls in package %s: %w", p.ImportPath, err)
			}
			for _, line := range lines {
				out = append(out, fmt.Sprintf("%s: %s: %s", p.ImportPath, line, c.Why))
			}
		}
	}
	return out, nil
}

func (c Calls) inFile(name string) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, 0)
	if err != nil {
		return nil, err
	}
	imported := importNames(file)
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		// An identifier with an object is a variable that hides the package.
		if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil && imported[id.Name] != "" {
			if used := imported[id.Name] + "." + sel.Sel.Name; slices.Contains(c.Names, used) {
				out = append(out, fmt.Sprintf("%s:%d uses %s", filepath.Base(name), fset.Position(n.Pos()).Line, used))
			}
		}
		return true
	})
	return out, nil
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
