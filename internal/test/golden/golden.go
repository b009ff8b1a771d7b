// Package golden compares the output of a test with a file of what it should be.
//
// The files stand in testdata beside the test. "go test . -update" writes them
// anew; look at the difference before you commit it.
package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// Update is the flag -update.
var Update = flag.Bool("update", false, "rewrite the golden files")

// JSON compares a value, as indented JSON, with the file testdata/<name>.json.
func JSON(t *testing.T, name string, value any) {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	must.NoError(t, enc.Encode(value))
	Bytes(t, name+".json", buf.Bytes())
}

// Bytes compares data with the file testdata/<name>.
func Bytes(t *testing.T, name string, data []byte) {
	t.Helper()
	File(t, filepath.Join("testdata", name), data)
}

// File compares data with a file anywhere in the checkout, such as a generated document.
func File(t *testing.T, path string, data []byte) {
	t.Helper()
	if *Update {
		must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(t, os.WriteFile(path, data, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must.False(t, errors.Is(err, fs.ErrNotExist),
		must.Sprintf("no golden file %q: write it with go test . -update", path))
	must.NoError(t, err)
	test.Eq(t, string(want), string(data), test.Sprintf("output differs from %s", path))
}

// Section compares a part of a document with what it should be. It stands between the lines
// "<!-- NAME: made by go test PACKAGE -update -->" and "<!-- end of NAME -->".
func Section(t *testing.T, path, name, text string) {
	t.Helper()
	doc, err := os.ReadFile(path)
	must.NoError(t, err)
	begin, end := "<!-- "+name+": made by go test ", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(doc), begin)
	command, rest, ok2 := strings.Cut(rest, " -update -->\n")
	_, after, ok3 := strings.Cut(rest, end)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has nothing between a line that begins with %q and one with %q", path, begin, end)
	}
	File(t, path, []byte(before+begin+command+" -update -->\n"+text+end+after))
}
