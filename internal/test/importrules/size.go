package importrules

import (
	"fmt"
	"go/ast"
	"slices"
)

// Sizes are the lines of functions and files, longest first.
type Sizes struct {
	Functions, Files []Size
}

// Size is one function or file.
type Size struct {
	Name  string // of a function with its file and line
	Lines int
}

// Measure counts the lines of every file and function of the packages of g.
func Measure(g Graph) (Sizes, error) {
	var s Sizes
	for _, p := range g.Own() {
		if err := p.parse(); err != nil {
			return s, err
		}
		for i, file := range p.files {
			short := p.ImportPath + "/" + p.GoFiles[i]
			s.Files = append(s.Files, Size{short, p.fset.File(file.Pos()).LineCount()})
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					first, last := p.fset.Position(f.Pos()).Line, p.fset.Position(f.End()).Line
					s.Functions = append(s.Functions, Size{fmt.Sprintf("%s:%d %s", short, first, f.Name.Name), last - first + 1})
				}
			}
		}
	}
	longest := func(a, b Size) int { return b.Lines - a.Lines }
	slices.SortStableFunc(s.Functions, longest)
	slices.SortStableFunc(s.Files, longest)
	return s, nil
}

// Percentile returns the number of lines that p percent of the sizes do not exceed.
func Percentile(sizes []Size, p int) int {
	if len(sizes) == 0 {
		return 0
	}
	return sizes[len(sizes)*(100-p)/100].Lines
}
