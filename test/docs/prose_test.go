package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// What user documents are held to. A name in code, whatever its length, is one word.
const (
	longestSentence = 25 // words
	averageSentence = 16
	wordsOfAll      = 30_000 // of all user documents, with their tables and without code blocks
)

// userPages are the documents for users: not those that are generated, decisions, or for developers.
func userPages(t *testing.T) (out []*Page) {
	t.Helper()
	for path, page := range pages(t) {
		rel, err := filepath.Rel(checkout, path)
		must.NoError(t, err)
		dir := filepath.Dir(rel)
		if rel == "README.md" || dir == "docs" || dir == filepath.Join("docs", "platforms") {
			out = append(out, page)
		}
	}
	must.GreaterEq(t, 30, len(out), must.Sprintf("only %d documents for users were found", len(out)))
	return out
}

// sentenceEnd is where a sentence ends: also at a colon, behind which a list or an example follows.
var sentenceEnd = regexp.MustCompile(`[.!?:;]["')]*(\s+|$)`)

// TestProse: user documents have short sentences, and stay short themselves.
func TestProse(t *testing.T) {
	total := 0
	for _, page := range userPages(t) {
		words, sentences := 0, 0
		for _, paragraph := range page.Prose {
			for _, sentence := range sentenceEnd.Split(paragraph, -1) {
				n := len(strings.Fields(sentence))
				if n == 0 {
					continue
				}
				words += n
				sentences++
				test.LessEq(t, longestSentence, n,
					test.Sprintf("%s: a sentence of %d words, and the most are %d: %s", page.Path, n, longestSentence, sentence))
			}
		}
		test.LessEq(t, averageSentence*sentences, words,
			test.Sprintf("%s: %d words in %d sentences, and the average is to be at most %d", page.Path, words, sentences, averageSentence))
		total += words + page.CellWords
	}
	test.LessEq(t, wordsOfAll, total,
		test.Sprintf("user documents have %d words, and may have %d: say it shorter, or in docs/dev", total, wordsOfAll))
	t.Log(total, "words")
}

var (
	notRun = regexp.MustCompile(`(?i)nobody (of us )?(has )?(run|ran|measured)|(did|do) not run (it|this|them|these)|we test(ed)? (with|without)|` +
		`not (yet )?(run|tested|verified) (by us|on)|not yet on hardware|recorded (machine|server|host)`)
	marked = regexp.MustCompile(`\*\*Not run\*\*`)
)

// TestNotRunIsMarked: what nobody has run stands behind the same two words on every page, which docs/compatibility.md
// explains, so that a search finds all of it.
func TestNotRunIsMarked(t *testing.T) {
	marks := 0
	for _, page := range userPages(t) {
		text := contents(t, strings.TrimPrefix(page.Path, checkout+"/"))
		marks += len(marked.FindAllString(text, -1))
		for line := range strings.Lines(marked.ReplaceAllString(text, "")) {
			test.Eq(t, "", notRun.FindString(line), test.Sprint(page.Path))
		}
	}
	test.GreaterEq(t, 20, marks, test.Sprintf("only %d marks were found", marks))
}

// TestQuotedRefusal: what docs/claims.md quotes of an admission policy is what the policy says.
func TestQuotedRefusal(t *testing.T) {
	_, quoted, _ := strings.Cut(contents(t, "docs/claims.md"), "want one of ")
	quoted, _, _ = strings.Cut(quoted, "\n")
	must.NotEq(t, "", quoted)
	test.StrContains(t, contents(t, "deployments/manifests/dra-driver-rdma.yaml"), "want one of "+quoted+"\"")
}
