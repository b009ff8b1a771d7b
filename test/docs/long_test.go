package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// later is a test that make proof or make test-long alone has, with its reason.
var later = regexp.MustCompile(`needs\.(?:Long|Proof)\(\w+, "(.*)"\)`)

// TestReasonsNameTests: the reason why a test is not in make test names tests that are there.
func TestReasonsNameTests(t *testing.T) {
	declared, calls := declaredTests(t, "../.."), 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "needs_test.go" {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range later.FindAllSubmatch(source, -1) {
			calls++
			for _, other := range regexp.MustCompile(`Test[A-Z]\w*`).FindAllString(string(m[1]), -1) {
				test.True(t, declared[other], test.Sprintf("%s: there is no test %s", path, other))
			}
		}
		return err
	})
	if err != nil || calls < 10 {
		t.Errorf("%d calls of needs.Long and needs.Proof, %v: have they another form?", calls, err)
	}
}
