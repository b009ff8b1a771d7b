package yamlread_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

const file = `# a comment
env:
  NCCL_DEBUG: INFO
  "a b": x
rules:
- name: first
  attributes: {example.com/x: 1}
-
  name: second
`

func TestPositions(t *testing.T) {
	p := yamlread.PositionsOf([]byte(file))
	for path, want := range map[string]int{
		"env": 2, "env.NCCL_DEBUG": 3, `env["a b"]`: 4, "rules": 5, "rules[0]": 6, "rules[0].name": 6,
		`rules[0].attributes["example.com/x"]`: 7, "rules[1].name": 9,
		"rules[1].match": 9, // is missing: where it would stand
		"shares":         0,
	} {
		test.Eq(t, want, p.Line(path), test.Sprintf("%s: line", path))
	}
	test.Eq(t, `rules[0].attributes["example.com/x"]`, p.Field(7, "example.com/x"),
		test.Sprint("the field of line 7"))
	test.Eq(t, "rules[1].name", p.Text(9, "sec..."), test.Sprint("the text of line 9"))
	for _, data := range []string{"", "- [", "text", "null"} {
		if p := yamlread.PositionsOf([]byte(data)); p.Line("text") != 0 {
			t.Errorf("%q has positions %v", data, p)
		}
	}
}
