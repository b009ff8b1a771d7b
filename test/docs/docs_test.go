package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

const checkout = "../.."

// pages reads all documents, by path.
func pages(t *testing.T) map[string]*Page {
	t.Helper()
	files, err := Files(checkout)
	must.NoError(t, err)
	all := map[string]*Page{}
	for _, file := range files {
		if all[file], err = Read(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestLinks: what a document links to in the checkout is there, with its anchor.
func TestLinks(t *testing.T) {
	all := pages(t)
	for _, page := range all {
		for _, link := range page.Links {
			to, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", page.Path, err)
				continue
			}
			if to.Scheme != "" {
				continue
			}
			target := page.Path
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(page.Path), to.Path)
			}
			_, err = os.Stat(target)
			test.NoError(t, err, test.Sprintf("%s links to %s", page.Path, link))
			if other := all[target]; to.Fragment != "" && (other == nil || !other.IDs[to.Fragment]) {
				t.Errorf("%s links to %s: there is no such heading", page.Path, link)
			}
		}
	}
}

// TestAnchors: anchors are those that GitHub makes.
func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"containerd 1.7":               "containerd-17",
		"The hook's directory":         "the-hooks-directory",
		"`HCAConfig` and others":       "hcaconfig-and-others",
		"A bug of the kernel: reboot!": "a-bug-of-the-kernel-reboot",
		"Zeichen wie ü":                "zeichen-wie-ü",
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		must.NoError(t, os.WriteFile(file, []byte("# "+heading+"\n\n## "+heading+"\n"), 0o600))
		page, err := Read(file)
		must.NoError(t, err)
		if len(page.IDs) != 2 || !page.IDs[want] || !page.IDs[want+"-1"] {
			t.Errorf("%s: %v, want %s", heading, page.IDs, want)
		}
	}
}

// TestNavigation: every page is in the navigation once; of the decisions, in their list. Developers' pages are in their
// group alone, which the site keeps out of the users' navigation.
func TestNavigation(t *testing.T) {
	var navigation []struct {
		Text  string
		Pages []string
	}
	decode(t, "site/navigation.json", &navigation)
	var listed []string
	for _, group := range navigation {
		listed = append(listed, group.Pages...)
		for _, page := range group.Pages {
			forDevelopers := strings.HasPrefix(page, "dev/") || strings.HasPrefix(page, "adr/")
			test.Eq(t, group.Text == "Development", forDevelopers, test.Sprintf("%s is in the group %q", page, group.Text))
		}
	}
	slices.Sort(listed)
	test.Eq(t, len(listed), len(slices.Compact(slices.Clone(listed))),
		test.Sprintf("the navigation names a page twice: %v", listed))
	all := pages(t)
	decisions := all[filepath.Join(checkout, "docs/adr/README.md")]
	for path := range all {
		name, isDoc := strings.CutPrefix(path, filepath.Join(checkout, "docs")+"/")
		switch {
		case !isDoc:
		case strings.HasPrefix(name, "adr/0"):
			test.True(t, slices.Contains(decisions.Links, filepath.Base(name)),
				test.Sprintf("docs/adr/README.md does not link to %s", name))
		case !slices.Contains(listed, strings.TrimSuffix(name, ".md")):
			t.Errorf("the navigation in site/navigation.json does not have %s", name)
		}
	}
}

// status is the third line of a decision record.
var status = regexp.MustCompile(`^Status: (accepted|replaced by (.+)|accepted; in part replaced by (.+))$`)

// TestDecisions: each decision has a status, a replaced one links to its successor, and the index has titles and
// statuses of all decisions, in the order of their numbers.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(checkout, "docs/adr/0*.md")) // sorted
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var want strings.Builder
	for _, file := range files {
		name := filepath.Base(file)
		lines := strings.SplitN(contents(t, "docs/adr/"+name), "\n", 4)
		must.Len(t, 4, lines, must.Sprint(name))
		number, decision, _ := strings.Cut(strings.TrimPrefix(lines[0], "# "), " ")
		match := status.FindStringSubmatch(lines[2])
		must.NotNil(t, match, must.Sprintf("%s has no status in its third line: %q", name, lines[2]))
		if successors := match[2] + match[3]; successors != "" {
			test.RegexMatch(t, regexp.MustCompile(`\]\(\d{4}-\S+\.md\)`), successors,
				test.Sprintf("%s does not link to what replaces it", name))
		}
		fmt.Fprintf(&want, "| [%s](%s) | %s | %s |\n", number, name, decision, match[1])
	}
	test.StrHasSuffix(t, "|---|---|---|\n"+want.String(), contents(t, "docs/adr/README.md"),
		test.Sprintf("docs/adr/README.md has not these rows, and nothing below:\n%s", &want))
}

var (
	reference = regexp.MustCompile(`(?:href|src)="?([^">\s]+)`)
	anchor    = regexp.MustCompile(`\sid="?([^">\s]+)`)
)

// TestSite builds the site: each page is there, and each link on it leads to another, with
// its anchor, or out of the site.
func TestSite(t *testing.T) {
	needs.Proof(t, "the site takes 25 s of processor time, and Node.js")
	needs.Program(t, "npm", "run hack/install-packages.sh")
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "--silent", "-C", checkout, "docs", "SITE="+out)
	said, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(said), "Error:") { // a page that cannot be rendered does not end the build
		t.Fatalf("make docs: %v: %s", err, said)
	}
	html := map[string]string{}
	err = filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".html") {
			return err
		}
		data, err := os.ReadFile(path)
		html[path] = string(data)
		return err
	})
	must.NoError(t, err)
	test.GreaterEq(t, 40, len(html), test.Sprintf("the site has %d pages", len(html)))
	for path, content := range html {
		for _, match := range reference.FindAllStringSubmatch(content, -1) {
			checkReference(t, html, out, path, match[1])
		}
	}
}

// checkReference checks a link of a page of the site.
func checkReference(t *testing.T, html map[string]string, site, page, link string) {
	t.Helper()
	to, err := url.Parse(link)
	if err != nil || to.Scheme != "" {
		return // out of the site: TestLinks
	}
	target := page
	if to.Path != "" {
		target = filepath.Join(filepath.Dir(page), to.Path)
		if strings.HasPrefix(to.Path, "/") {
			target = filepath.Join(site, to.Path)
		}
		if strings.HasSuffix(to.Path, "/") {
			target = filepath.Join(target, "index.html")
		}
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s links to %s: %v", page, link, err)
		return
	}
	if to.Fragment == "" {
		return
	}
	for _, match := range anchor.FindAllStringSubmatch(html[target], -1) {
		if match[1] == to.Fragment {
			return
		}
	}
	t.Errorf("%s links to %s: no such anchor", page, link)
}
