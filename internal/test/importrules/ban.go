package importrules

import (
	"fmt"
	"strings"
)

// Ban keeps packages from using others.
type Ban struct {
	// Name is that of the planted violation; Why is the reason, for who meets it.
	Name, Why string
	// Of are the packages under the rule, But those of them that are free.
	Of, But []string
	// Imports must not be imported by the package itself, Links not by any package
	// that it is linked with.
	Imports, Links []string
	// Except are free to be used.
	Except []string
}

// Violations returns a line for each way in which the packages of g break the
// ban. It names the chain of imports; what a banned package links is not listed.
func (b Ban) Violations(g Graph) []string {
	var out []string
	for _, p := range g.Own() {
		if !g.matches(p.ImportPath, b.Of) || g.matches(p.ImportPath, b.But) {
			continue
		}
		for _, chain := range b.chains(g, p) {
			out = append(out, fmt.Sprintf("%s: %s", strings.Join(chain, " imports "), b.Why))
		}
	}
	return out
}

// chains walks the imports of a package, nearest first, and stops at what is
// banned.
func (b Ban) chains(g Graph, p *Package) [][]string {
	var found [][]string
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
			if b.banned(g, path, len(next) == 2) {
				found = append(found, next)
				continue
			}
			queue = append(queue, next)
		}
	}
	return found
}

func (b Ban) banned(g Graph, path string, direct bool) bool {
	if g.matches(path, b.Except) {
		return false
	}
	return g.matches(path, b.Links) || direct && g.matches(path, b.Imports)
}
