package yamlread_test

import (
	"testing"

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
		if got := p.Line(path); got != want {
			t.Errorf("%s: line %d, want %d", path, got, want)
		}
	}
	if got := p.Field(7, "example.com/x"); got != `rules[0].attributes["example.com/x"]` {
		t.Errorf("the field of line 7 is %q", got)
	}
	if got := p.Text(9, "sec..."); got != "rules[1].name" {
		t.Errorf("the text of line 9 is %q", got)
	}
	for _, data := range []string{"", "- [", "text", "null"} {
		if p := yamlread.PositionsOf([]byte(data)); p.Line("text") != 0 {
			t.Errorf("%q has positions %v", data, p)
		}
	}
}
