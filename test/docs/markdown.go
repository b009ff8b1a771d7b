// Package docs proves the documentation: links and anchors lead somewhere, every page is
// in the navigation of the site, and the site builds. It holds what other tests of the
// documents need, too: their blocks of code.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Page is a document, as far as tests look at it.
type Page struct {
	Path   string          // of the file
	Links  []string        // where its links and pictures lead, as they stand
	IDs    map[string]bool // of its headings, as GitHub and the site make them
	Blocks []Block         // its fenced code
	Prose  []string        // its paragraphs and the items of its lists, as plain text; code is the word "code"
	// CellWords is how many words the cells of its tables have.
	CellWords int
}

// Block is a fenced block of code.
type Block struct {
	Language string
	Text     string
	Line     int
}

// Read parses a document.
func Read(path string) (*Page, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	page := &Page{Path: path, IDs: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			page.add(n, source)
		}
		return ast.WalkContinue, nil
	})
	return page, err
}

func (p *Page) add(n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Link:
		p.Links = append(p.Links, string(n.Destination))
	case *ast.Image:
		p.Links = append(p.Links, string(n.Destination))
	case *ast.Heading:
		id := slug(plain(n, source))
		for base, i := id, 1; p.IDs[id]; i++ {
			id = fmt.Sprintf("%s-%d", base, i)
		}
		p.IDs[id] = true
	case *ast.Paragraph, *ast.TextBlock:
		p.Prose = append(p.Prose, sentences(n, source))
	case *east.TableCell:
		p.CellWords += len(strings.Fields(sentences(n, source)))
	case *ast.FencedCodeBlock:
		var code strings.Builder
		line := 0
		for i := range n.Lines().Len() {
			segment := n.Lines().At(i)
			if i == 0 {
				line = 1 + strings.Count(string(source[:segment.Start]), "\n")
			}
			code.Write(segment.Value(source))
		}
		p.Blocks = append(p.Blocks, Block{Language: string(n.Language(source)), Text: code.String(), Line: line})
	}
}

// plain is the text of a heading without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			continue
		}
		b.WriteString(plain(c, source))
	}
	return b.String()
}

// sentences is the text of a paragraph. Code in it is one word.
func sentences(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeSpan:
			b.WriteString("code")
		case *ast.Image, *ast.RawHTML:
		default:
			b.WriteString(sentences(c, source))
		}
	}
	return b.String()
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// Files are the documents of a checkout for its users and developers.
func Files(checkout string) ([]string, error) {
	files := []string{"README.md", "test/cluster/README.md", "packaging/systemd/README.md", "deployments/helm/dra-driver-rdma/README.md"}
	for i, f := range files {
		files[i] = filepath.Join(checkout, f)
	}
	err := filepath.WalkDir(filepath.Join(checkout, "docs"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	return files, err
}
