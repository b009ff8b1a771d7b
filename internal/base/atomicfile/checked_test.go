package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

var errTheirs = errors.New("theirs")

// ours is a check by content, which lets another program write theirs after a number of looks.
func ours(t *testing.T, path string, looks int) Check {
	return func(name string) error {
		data, err := os.ReadFile(name)
		if looks--; looks == 0 {
			fresh := path + ".fresh"
			test.NoError(t, errors.Join(os.WriteFile(fresh, []byte("theirs"), 0o600), os.Rename(fresh, path)))
		}
		if err == nil && !strings.HasPrefix(string(data), "ours") {
			return errTheirs
		}
		return err
	}
}

// TestCheck: a file that check refuses stays whole, also one that comes between the look at the
// old file and the change; and nothing else is left in the directory.
func TestCheck(t *testing.T) {
	write := func(path string, check Check) (bool, error) {
		return Write(path, []byte("ours, new"), Options{Mode: 0o644, Check: check})
	}
	for _, c := range []struct {
		name, before string
		looks        int // after which theirs comes, 0 for never
		do           func(string, Check) (bool, error)
		changed      bool
		err          error
		after        string
	}{
		{"write, none there", "", 0, write, true, nil, "ours, new"},
		{"write over ours", "ours, old", 0, write, true, nil, "ours, new"},
		{"write over theirs", "theirs", 0, write, false, errTheirs, "theirs"},
		{"write as theirs comes", "ours, old", 1, write, false, errTheirs, "theirs"},
		{"remove none", "", 0, Remove, false, nil, ""},
		{"remove ours", "ours, old", 0, Remove, true, nil, ""},
		{"remove theirs", "theirs", 0, Remove, false, errTheirs, "theirs"},
		{"remove as theirs comes", "ours, old", 1, Remove, false, errTheirs, "theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spec.json")
			if c.before != "" {
				must.NoError(t, os.WriteFile(path, []byte(c.before), 0o600))
			}
			changed, err := c.do(path, ours(t, path, c.looks))
			if changed != c.changed || !errors.Is(err, c.err) {
				t.Errorf("changed %v, error %v; want %v, %v", changed, err, c.changed, c.err)
			}
			data, err := os.ReadFile(path)
			if string(data) != c.after || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file has %q, error %v; want %q", data, err, c.after)
			}
			if c.after != "" {
				onlyFile(t, path)
			} else if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
				t.Errorf("the directory has %v, error %v", entries, err)
			}
		})
	}
}

// TestCheckOfAbsent: a file that comes when there was none is not replaced either.
func TestCheckOfAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	must.NoError(t, os.WriteFile(path, []byte("theirs"), 0o600))
	gone := true // at the first look, as it seemed a moment ago
	check := func(name string) error {
		if gone {
			gone = false
			return fs.ErrNotExist
		}
		return ours(t, name, 0)(name)
	}
	if changed, err := Write(path, []byte("ours"), Options{Mode: 0o644, Check: check}); changed ||
		!errors.Is(err, errTheirs) {
		t.Errorf("changed %v, error %v", changed, err)
	}
	onlyFile(t, path)
}

// TestCheckConcurrently: while writers replace and removers remove their own file, one of another
// program that was renamed there is never lost, and no temporary file stays.
func TestCheckConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.json")
	var group sync.WaitGroup
	for _, content := range []string{"ours, one", "ours, two"} {
		group.Go(func() {
			for range 200 {
				_, err := Write(path, []byte(content), Options{Mode: 0o644, Check: ours(t, path, 0)})
				if err != nil && !errors.Is(err, errTheirs) {
					t.Error(err)
				}
				if _, err := Remove(path, ours(t, path, 0)); err != nil && !errors.Is(err, errTheirs) {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		fresh := path + ".fresh"
		test.NoError(t, errors.Join(os.WriteFile(fresh, []byte("theirs"), 0o600), os.Rename(fresh, path)))
	})
	group.Wait()
	if data, err := os.ReadFile(path); err != nil || string(data) != "theirs" {
		t.Errorf("the file has %q, error %v", data, err)
	}
	onlyFile(t, path)
}
