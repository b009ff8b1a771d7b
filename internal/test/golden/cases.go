package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/tools/txtar"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
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
			got := strings.TrimSuffix(run(t, decode[In](t, input)), "\n") + "\n"
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

// Input returns the value that the file testdata/<name>.yaml has for a test.
func Input[In any](t testing.TB, name string) In {
	t.Helper()
	input, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	must.NoError(t, err)
	return decode[In](t, string(input))
}

// decode reads YAML as the fields of a type that is made for JSON.
func decode[In any](t testing.TB, input string) (in In) {
	t.Helper()
	var value any
	must.NoError(t, yamlread.Table.Decode([]byte(input), &value))
	data, err := json.Marshal(value)
	must.NoError(t, err)
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	must.NoError(t, strict.Decode(&in))
	return in
}
