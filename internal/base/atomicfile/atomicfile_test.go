package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	for _, step := range []struct {
		name    string
		data    string
		mode    fs.FileMode
		changed bool
	}{
		{"new file", "one", 0o644, true},
		{"same again", "one", 0o644, false},
		{"other content", "two", 0o644, true},
		{"other mode", "two", 0o600, true},
		{"empty", "", 0o600, true},
	} {
		changed, err := Write(path, []byte(step.data), Options{Mode: step.mode, Sync: true})
		if err != nil || changed != step.changed {
			t.Fatalf("%s: changed %v, error %v; want %v", step.name, changed, err, step.changed)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != step.data {
			t.Fatalf("%s: content %q, error %v", step.name, got, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != step.mode {
			t.Fatalf("%s: mode %v, error %v; want %v", step.name, info.Mode(), err, step.mode)
		}
	}
	onlyFile(t, path)
}

// TestExisting: only a file that is there is replaced, and nothing is left of either.
func TestExisting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	opt := Options{Mode: 0o640, Existing: true}
	if changed, err := Write(path, []byte("new"), opt); changed || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file: changed %v, error %v", changed, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
		t.Fatalf("without a file: the directory has %v, %v", entries, err)
	}
	must.NoError(t, os.WriteFile(path, []byte("old"), 0o640))
	if changed, err := Write(path, []byte("new"), opt); !changed || err != nil {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Fatalf("content %q, %v", got, err)
	}
	onlyFile(t, path)
}

// TestWriteReplacesSymlink: a link under our name is replaced, never followed.
func TestWriteReplacesSymlink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "elsewhere")
	must.NoError(t, os.WriteFile(target, []byte("data"), 0o644))
	link := filepath.Join(dir, "spec.json")
	must.NoError(t, os.Symlink(target, link))
	if _, err := Write(link, []byte("data"), Options{Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Fatalf("mode %v, error %v; want a regular file", info.Mode(), err)
	}
}

func TestWriteFailsWhole(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "spec.json")
	if err := os.Mkdir(blocked, 0o755); err != nil { // a rename over a directory fails
		t.Fatal(err)
	}
	if _, err := Write(blocked, []byte("x"), Options{Mode: 0o644}); err == nil {
		t.Fatal("writing over a directory succeeded")
	}
	onlyFile(t, blocked)
	if _, err := Write(filepath.Join(dir, "absent", "spec.json"), nil, Options{Mode: 0o644}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Fatalf("error %v; want ErrNotExist", err)
	}
}

// TestWriteConcurrently: readers never see a mixture, nothing is left over.
func TestWriteConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	contents := []string{string(make([]byte, 8192)), "b"}
	var wg sync.WaitGroup
	for _, c := range contents {
		wg.Go(func() {
			for range 100 {
				if _, err := Write(path, []byte(c), Options{Mode: 0o644}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 500 {
			got, err := os.ReadFile(path)
			if err == nil && string(got) != contents[0] && string(got) != contents[1] {
				t.Errorf("read a mixture of %d bytes", len(got))
			}
		}
	})
	wg.Wait()
	onlyFile(t, path)
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old, young, foreign := filepath.Join(dir, tempPrefix+"1"+tempSuffix), filepath.Join(dir, tempPrefix+"2"+tempSuffix),
		filepath.Join(dir, "other.tmp")
	for _, f := range []string{old, young, foreign} {
		must.NoError(t, os.WriteFile(f, nil, 0o644))
	}
	hourAgo := time.Now().Add(-time.Hour)
	for _, f := range []string{old, foreign} {
		must.NoError(t, os.Chtimes(f, hourAgo, hourAgo))
	}
	must.NoError(t, Sweep(dir, time.Minute))
	for f, want := range map[string]bool{old: false, young: true, foreign: true} {
		if _, err := os.Lstat(f); (err == nil) != want {
			t.Errorf("%s exists: %v; want %v", f, err == nil, want)
		}
	}
}

func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Fatalf("directory holds %v, error %v; want only %s", entries, err, filepath.Base(path))
	}
}
