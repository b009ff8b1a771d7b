package importrules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// names are what comments may refer to: what each package declares, by the package's name, and all words of the code.
type names struct {
	files    *token.FileSet
	declared map[string]map[string]bool
	used     map[string]bool
}

// others are names in comments that other projects and people made.
var others = strings.Fields(`AsInt64 BusyBox CmpltTO CronJobs CustomResourceDefinitions DefaultLimitMEMLOCK GitHub
	IsDRAExtendedResourceName IsExtendedResourceName JavaScript JobSets LoadConfig PodClaims PortCounters
	PortPhysicalState SmartNIC TestIsExtendedResourceName TiB UnsupReq UpperCamelCase ValidateV2 VirtualBox`)

var (
	word = regexp.MustCompile(`[A-Za-z_]\w*`)
	// link is a link of a comment to a name of its own package, or of a type in it.
	link = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Z]\w*[a-z]\w*(?:\.[A-Z]\w*)?)\](?:[\s).,:;]|$)`)
	// qualified is a name of another package: importrules.Rule.
	qualified = regexp.MustCompile("(?:^|[\\s(\"`\\[])([a-z][a-z0-9]*)\\.([A-Z]\\w*)\\b")
	// camel is a word of code: TestNames.
	camel = regexp.MustCompile(`(?:^|[\s(\[])([A-Z][a-z0-9]+[A-Z]\w*)\b`)
)

// parseAll parses the Go files below a directory, but those of testdata in it.
func (n names) parseAll(t *testing.T, dir string) (all []*ast.File) {
	t.Helper()
	must.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != dir && (e.Name() == "testdata" || strings.HasPrefix(filepath.Base(path), ".")):
			return fs.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(n.files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, file)
		return err
	}))
	return all
}

func packageOf(file *ast.File) string { return strings.TrimSuffix(file.Name.Name, "_test") }

// learn adds the names of a file. Fields and methods are names of their package, too.
func (n names) learn(file *ast.File) {
	pkg := packageOf(file)
	if n.declared[pkg] == nil {
		n.declared[pkg] = map[string]bool{}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		var here []*ast.Ident
		switch v := node.(type) {
		case *ast.FuncDecl:
			here = []*ast.Ident{v.Name}
		case *ast.TypeSpec:
			here = []*ast.Ident{v.Name}
		case *ast.ValueSpec:
			here = v.Names
		case *ast.Field:
			here = v.Names
		case *ast.Ident:
			n.used[v.Name] = true
		case *ast.BasicLit:
			for _, w := range word.FindAllString(v.Value, -1) {
				n.used[w] = true
			}
		}
		for _, name := range here {
			n.declared[pkg][name.Name] = true
		}
		return true
	})
}

// gone returns the names in the comments of a file that no code has.
func (n names) gone(file *ast.File) (out []string) {
	pkg := packageOf(file)
	for _, group := range file.Comments {
		for _, c := range group.List {
			missing := func(name string) {
				out = append(out, fmt.Sprintf("%v: no code has %s", n.files.Position(c.Pos()), name))
			}
			for _, m := range link.FindAllStringSubmatch(c.Text, -1) {
				isGone := func(part string) bool { return !n.declared[pkg][part] }
				if slices.ContainsFunc(strings.Split(m[1], "."), isGone) {
					missing(m[1])
				}
			}
			for _, m := range qualified.FindAllStringSubmatch(c.Text, -1) {
				if there := n.declared[m[1]]; there != nil && !there[m[2]] && !n.declared[pkg][m[2]] {
					missing(m[1] + "." + m[2])
				}
			}
			for _, m := range camel.FindAllStringSubmatch(c.Text, -1) {
				if !n.used[m[1]] && !slices.Contains(others, m[1]) {
					missing(m[1])
				}
			}
		}
	}
	return out
}

// TestNames: what a comment names is there, in this module and those beside it. A name of another project stands in
// others.
func TestNames(t *testing.T) {
	n := names{token.NewFileSet(), map[string]map[string]bool{}, map[string]bool{}}
	all := n.parseAll(t, "../../..")
	for _, file := range all {
		n.learn(file)
	}
	for _, file := range all {
		for _, fault := range n.gone(file) {
			t.Error(fault)
		}
	}
	planted := n.parseAll(t, "testdata/names")[0]
	n.learn(planted)
	var found []string
	for _, fault := range n.gone(planted) {
		_, name, _ := strings.Cut(fault, "no code has ")
		found = append(found, name)
	}
	test.Eq(t, "Vanished importrules.Vanishing Vanished"+"Too", strings.Join(found, " "))
}
