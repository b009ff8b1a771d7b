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

	"github.com/google/go-cmp/cmp"
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
	if err := enc.Encode(value); err != nil {
		t.Fatal(err)
	}
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no golden file %q: write it with go test . -update", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(data)); diff != "" {
		t.Errorf("output differs from %s (-want +got):\n%s", path, diff)
	}
}

// Section compares a part of a document with what it should be. It stands between the lines
// "<!-- NAME: made by go test PACKAGE -update -->" and "<!-- end of NAME -->".
func Section(t *testing.T, path, name, text string) {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": made by go test ", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(doc), begin)
	command, rest, ok2 := strings.Cut(rest, " -update -->\n")
	_, after, ok3 := strings.Cut(rest, end)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has nothing between a line that begins with %q and one with %q", path, begin, end)
	}
	File(t, path, []byte(before+begin+command+" -update -->\n"+text+end+after))
}
