package release

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// documents returns README.md and docs/*.md for docDir. Their links lead to files of the package, or to the
// project's site at this version.
func (r *run) documents() ([]file, error) {
	names, err := filepath.Glob(filepath.Join(r.Source, "docs/*.*"))
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	packaged := map[string]bool{"README.md": true}
	for _, name := range names {
		packaged["docs/"+filepath.Base(name)] = true
	}
	var out []file
	for name := range packaged {
		if path.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.Source, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		f, err := r.made(docDir+"/"+path.Base(name), []byte(relink(string(text), path.Dir(name), r.site(), packaged)))
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// site is where a file of the checkout can be read at this version.
func (r *run) site() string {
	if tagged.MatchString(r.Version) {
		return homepage + "/blob/" + r.Version + "/"
	}
	return homepage + "/blob/main/"
}

// link is a link of Markdown: the text before its target, the path, and the fragment.
var link = regexp.MustCompile(`(\]\()([^)#\s]+)(#[^)\s]*)?\)`)

// relink replaces relative links of a document in a directory of the checkout. All packaged files stand in one
// directory.
func relink(text, dir, site string, packaged map[string]bool) string {
	return link.ReplaceAllStringFunc(text, func(s string) string {
		m := link.FindStringSubmatch(s)
		if strings.Contains(m[2], ":") || strings.HasPrefix(m[2], "/") {
			return s
		}
		target := path.Join(dir, m[2])
		if packaged[target] {
			target = path.Base(target)
		} else {
			target = site + target
		}
		return m[1] + target + m[3] + ")"
	})
}
