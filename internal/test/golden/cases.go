package golden

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// Cases runs a test for each file of the text archive testdata/<name>.txtar. A file is a case: the input in YAML, a
// line "---", and the text that run returns for this input.
func Cases[In any](t *testing.T, name string, run func(t *testing.T, in In) string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txtar")
	archive, err := txtar.ParseFile(path)
	must.NoError(t, err)
	must.SliceNotEmpty(t, archive.Files, must.Sprint("cases in "+path))
	for i, c := range archive.Files {
		t.Run(c.Name, func(t *testing.T) {
			input, want, _ := strings.Cut(string(c.Data), "---\n")
			var in In
			must.NoError(t, yaml.UnmarshalStrict([]byte(input), &in))
			got := strings.TrimSuffix(run(t, in), "\n") + "\n"
			if *Update {
				archive.Files[i].Data = []byte(input + "---\n" + got)
				return
			}
			test.Eq(t, want, got, test.Sprintf("output differs from %s", path))
		})
	}
	if *Update {
		File(t, path, txtar.Format(archive))
	}
}
