package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

const (
	buildPage = "docs/install.md#build-your-own"
	buildURL  = "https://github.com/rdma-dev/dra-driver-rdma/blob/main/" + buildPage
)

func publication(t *testing.T) Publication {
	t.Helper()
	p, err := ReadPublication(checkout)
	must.NoError(t, err)
	return p
}

// TestPublicationInDocs: each page that leads to an image, chart or package says in the same words whether there is one.
func TestPublicationInDocs(t *testing.T) {
	p := publication(t)
	for page, section := range map[string]string{
		"README.md":               p.Install(buildPage),
		"docs/index.md":           p.Install("install.md#build-your-own"),
		chartDir + "/README.md":   p.Install(buildURL),
		"docs/install.md":         p.Notice("#build-your-own"),
		"docs/kubectl-rdma.md":    p.Notice("dev/release.md#packages"),
		"docs/security-review.md": p.Notice("install.md#build-your-own"),
		"CHANGELOG.md":            p.Notice(buildPage),
	} {
		golden.Section(t, filepath.Join(checkout, page), "release", section)
	}
}

// TestPublicationBothWays: the words fit either state, since the annotation alone changes at a release.
func TestPublicationBothWays(t *testing.T) {
	p := Publication{Version: "1.2.3", Image: "ghcr.io/a/b"}
	if got := p.Install("here"); !strings.Contains(got, "**Version 1.2.3 is not published yet: ") || !strings.Contains(got, "make image") ||
		strings.Contains(got, "oci://") {
		t.Errorf("not published:\n%s", got)
	}
	p.Published = true
	if got := p.Install("here"); !strings.Contains(got, "helm install dra-driver-rdma oci://ghcr.io/a/charts/b --version 1.2.3") ||
		strings.Contains(got, "make image") || strings.Contains(got, "not published") {
		t.Errorf("published:\n%s", got)
	}
}

// TestImageIsNamedWithItsState: whatever names the project's image says whether anybody can pull it.
func TestImageIsNamedWithItsState(t *testing.T) {
	p := publication(t)
	named := 0
	for _, root := range []string{"README.md", "docs", "deployments", "examples"} {
		err := filepath.WalkDir(filepath.Join(checkout, root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasPrefix(path, filepath.Join(checkout, "docs/dev")) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(data), p.Image+":") && !strings.Contains(string(data), p.Image+"\n") {
				return err
			}
			named++
			// Who installs the chart with this value is warned by its notes (test/chart).
			if filepath.Base(path) == "values.yaml" || filepath.Base(path) == "Chart.yaml" {
				return nil
			}
			test.StrContains(t, string(data), p.Sentence(),
				test.Sprintf("%s names the image %s without the words", path, p.Image))
			return nil
		})
		must.NoError(t, err)
	}
	test.NotEq(t, 0, named, test.Sprintf("nothing names the image %s", p.Image))
}

// TestNamesOfReleases: what builds and publishes uses the names of the documents.
func TestNamesOfReleases(t *testing.T) {
	p := publication(t)
	registry := strings.TrimSuffix(p.Image, "/dra-driver-rdma")
	for file, words := range map[string][]string{
		"Makefile":                          {"IMAGE ?= " + p.Image + ":$(VERSION)"},
		"hack/publish.sh":                   {"registry=${REGISTRY:-" + registry + "}", `"oci://$registry/charts"`},
		"packaging/dist.sh":                 {"registry=" + registry + "\n", "image rdma-perftest "},
		"internal/inspect/traffic/needs.go": {`images = "` + registry + `/rdma-perftest:"`},
		"docs/install.md":                   {p.Charts(), "--version " + p.Version},
		chartDir + "/Chart.yaml":            {"appVersion: v" + p.Version, "image: " + p.Image + ":v" + p.Version},
		"CHANGELOG.md":                      {"## " + p.Version},
	} {
		for _, word := range words {
			test.StrContains(t, contents(t, file), word, test.Sprintf("%s does", file))
		}
	}
}

// ofUs is a version of the project in a name of a file or an image.
var ofUs = regexp.MustCompile(
	`(?:dra-driver-rdma[:_-]v?|cdi-gen[_-]|cdi-gen \(|kubectl-rdma_|/cmd/[a-z.-]+@v|rdma-hook-v|"hookVersion":"v)(\d+\.\d+\.\d+)`)

// TestOneVersion: documents for users name no version but the present one.
func TestOneVersion(t *testing.T) {
	p, found := publication(t), []string{}
	for _, page := range userPages(t) {
		for _, m := range ofUs.FindAllStringSubmatch(contents(t, strings.TrimPrefix(page.Path, checkout+"/")), -1) {
			found = append(found, page.Path)
			test.Eq(t, p.Version, m[1], test.Sprintf("%s has %q, and the version", page.Path, m[0]))
		}
	}
	if found = slices.Compact(found); len(found) < 4 {
		t.Errorf("only %v name a version: has the form of names changed?", found)
	}
}

// TestLicenseInChart: the chart's archive has the license of the project.
func TestLicenseInChart(t *testing.T) {
	test.Eq(t, contents(t, chartDir+"/LICENSE"), contents(t, "LICENSE"),
		test.Sprint("LICENSE of the chart is another one"))
}
