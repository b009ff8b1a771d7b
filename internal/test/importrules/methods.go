package importrules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
)

// Methods keeps types from having too many methods.
type Methods struct {
	// Name is that of the planted violation; Why is the reason, for who meets it.
	Name, Why string
	// Of are the packages under the rule, But those of them that are free.
	Of, But []string
	// Most is the largest number of methods that a type may have.
	Most int
}

// Violations returns a line for each type in the packages of g that breaks the rule. Methods of embedded types do not
// count.
func (m Methods) Violations(g Graph) ([]string, error) {
	var out []string
	for _, p := range g.Own() {
		if !g.matches(p.ImportPath, m.Of) || g.matches(p.ImportPath, m.But) {
			continue
		}
		count, err := countMethods(p)
		if err != nil {
			return nil, fmt.Errorf("count methods in package %s: %w", p.ImportPath, err)
		}
		for _, name := range slices.Sorted(maps.Keys(count)) {
			if count[name] > m.Most {
				out = append(out, fmt.Sprintf("%s: type %s has %d methods: %s", p.ImportPath, name, count[name], m.Why))
			}
		}
	}
	return out, nil
}

// countMethods returns the number of methods of each type of a package.
func countMethods(p *Package) (map[string]int, error) {
	count := map[string]int{}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				count[receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	return count, nil
}

// receiver returns the name of a receiver's type, without a pointer and type parameters.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
