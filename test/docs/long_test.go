package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longTest is a test that only a long run has, with its reason.
var longTest = regexp.MustCompile(
	`(?m)^func (?:\(\w+ \w+\) )?(\w+)\([^\n]*\{\n(?:\t[^\n]*\n){0,3}?\tneeds\.Long\(\w+, "(.*)"\)`)

// TestLongRunIsTold: docs/dev/testing.md names each test that only a long run has, and each test that is named for the
// short run is there.
func TestLongRunIsTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## What `make test-long` has more\n")
	if !found {
		t.Fatal("docs/dev/testing.md has no section on make test-long")
	}
	declared, calls := declaredTests(t, "../.."), 0
	for _, name := range namedTest.FindAllStringSubmatch(section, -1) {
		if !declared[name[1]] {
			t.Errorf("there is no test %s", name[1])
		}
	}
	err = filepath.WalkDir("../../test", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range longTest.FindAllSubmatch(source, -1) {
			calls++
			if !strings.Contains(section, "`"+string(m[1])+"`") {
				t.Errorf("%s: %s is not in the section: %s", path, m[1], m[2])
			}
			for _, other := range regexp.MustCompile(`Test[A-Z]\w*`).FindAllString(string(m[2]), -1) {
				if !declared[other] {
					t.Errorf("%s: there is no test %s", path, other)
				}
			}
		}
		return err
	})
	if err != nil || calls < 10 {
		t.Errorf("%d calls of needs.Long, %v: have they another form?", calls, err)
	}
}
