package golden

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/tools/txtar"
)

// Archive is a text archive with what a test is given, and with its output: see [golang.org/x/tools/txtar].
type Archive struct {
	*txtar.Archive
	path string
}

// Open reads an archive.
func Open(t testing.TB, path string) *Archive {
	t.Helper()
	files, err := txtar.ParseFile(path)
	must.NoError(t, err)
	return &Archive{files, path}
}

// File returns a file of the archive. It reports whether the archive has it.
func (a *Archive) File(name string) ([]byte, bool) {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return a.Files[i].Data, true
}

// Bytes compares data, which ends with a newline, with a file of the archive. With -update it writes the file.
func (a *Archive) Bytes(t *testing.T, name string, data []byte) {
	t.Helper()
	want, ok := a.File(name)
	if *Update {
		a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
		a.Files = append(a.Files, txtar.File{Name: name, Data: bytes.Clone(data)})
		must.NoError(t, os.WriteFile(a.path, txtar.Format(a.Archive), 0o644))
		return
	}
	must.True(t, ok, must.Sprintf("%s has no file %s: write it with go test . -update", a.path, name))
	test.Eq(t, string(want), string(data), test.Sprintf("output differs from %s of %s", name, a.path))
}
