package importrules

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// large finds the types of a package with too many methods, and those in the list that grew, or have not too many any
// more.
func (r Rule) large(g Graph, p *Package) []string {
	if r.Most == 0 {
		return nil
	}
	takes := map[string]int{}
	types := map[string]bool{}
	for _, file := range p.files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					takes[firstParameter(d)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						types[t.Name.Name] = true
					}
				}
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(types)) {
		methods := map[string]bool{}
		g.addMethods(methods, p, name)
		n := len(methods) + takes[name]
		switch known, ok := r.Large[p.ImportPath+"."+name]; {
		case ok && n > known:
			out = append(out, fmt.Sprintf("%s: type %s grew from %d methods to %d", p.ImportPath, name, known, n))
		case ok && n <= r.Most:
			out = append(out, fmt.Sprintf("%s: type %s has %d methods: take it off the list", p.ImportPath, name, n))
		case !ok && n > r.Most:
			out = append(out, fmt.Sprintf("%s: type %s has %d methods", p.ImportPath, name, n))
		}
	}
	return out
}

// firstParameter returns the name of the type of a function's first parameter, contexts aside. It is "" if there is
// none, and if the type is of another package.
func firstParameter(f *ast.FuncDecl) string {
	for _, field := range f.Type.Params.List {
		if importPath, name := typeName(field.Type); importPath != "context" {
			if importPath == "" {
				return name
			}
			return ""
		}
	}
	return ""
}

// addMethods adds the names of a type's methods, and of those that it has from embedded types. Types that cannot be
// found, as those of the language, have none.
func (g Graph) addMethods(to map[string]bool, p *Package, name string) {
	if p == nil || p.parse() != nil {
		return
	}
	for _, file := range p.files {
		imported := importNames(file)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					continue
				}
				if _, of := typeName(d.Recv.List[0].Type); of == name {
					to[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
						g.addEmbedded(to, p, imported, t.Type)
					}
				}
			}
		}
	}
}

func (g Graph) addEmbedded(to map[string]bool, p *Package, imported map[string]string, t ast.Expr) {
	fields := new(ast.FieldList)
	of, isInterface := t.(*ast.InterfaceType)
	if isInterface {
		fields = of.Methods
	} else if of, ok := t.(*ast.StructType); ok {
		fields = of.Fields
	}
	for _, field := range fields.List {
		if len(field.Names) > 0 {
			if isInterface {
				to[field.Names[0].Name] = true
			}
			continue
		}
		from := p
		pkg, name := typeName(field.Type)
		if pkg != "" {
			from = g[imported[pkg]]
		}
		g.addMethods(to, from, name)
	}
}

// typeName returns the package, as the file calls it, and the name of a type, without pointers and type parameters.
func typeName(e ast.Expr) (pkg, name string) {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		_, pkg = typeName(t.X)
		return pkg, t.Sel.Name
	case *ast.Ident:
		return "", t.Name
	}
	return "", ""
}
