package cdi_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newSpec(t testing.TB, devices ...string) *specs.Spec {
	t.Helper()
	var list []cdi.Device
	for _, name := range devices {
		list = append(list, cdi.Device{Name: name, Nodes: nodes(uverbs0, rdmaCM)})
	}
	spec, err := cdi.NewSpec(cdi.KindHCA, list)
	must.NoError(t, err)
	return spec
}

// TestWrite: written once, left alone when equal, replaced when not.
func TestWrite(t *testing.T) {
	store := cdi.Store{Dir: filepath.Join(t.TempDir(), "etc", "cdi"), Sync: true}
	file := store.Path("rdma.dev-hca", cdi.JSON)
	write := func(want bool, devices ...string) os.FileInfo {
		t.Helper()
		changed, err := store.Write("rdma.dev-hca", newSpec(t, devices...), cdi.JSON)
		must.True(t, err == nil && changed == want,
			must.Sprintf("changed %v, error %v; want %v", changed, err, want))
		info, err := os.Stat(file)
		must.NoError(t, err)
		return info
	}
	first := write(true, "a")
	second := write(false, "a")
	test.True(t, os.SameFile(first, second) && first.ModTime().Equal(second.ModTime()),
		test.Sprint("an equal file was written again"))
	test.False(t, os.SameFile(first, write(true, "a", "b")),
		test.Sprint("the file was changed in place, not replaced"))
	test.Eq(t, 2, len(readSpec(t, file).Devices), test.Sprint("devices in the file"))
	holds(t, store.Dir, "rdma.dev-hca.json")
}

// TestWriteRemovesTwin: the same names in two files of one directory would make
// both unusable.
func TestWriteRemovesTwin(t *testing.T) {
	store := cdi.Store{Dir: t.TempDir()}
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML, cdi.JSON} {
		changed, err := store.Write("x", newSpec(t, "a"), format)
		must.True(t, err == nil && changed, must.Sprintf("changed %v, error %v", changed, err))
		holds(t, store.Dir, "x."+string(format))
	}
	// The twin alone is a change as well: runtimes see other devices than before.
	must.NoError(t, os.WriteFile(store.Path("x", cdi.YAML), nil, 0o644))
	changed, err := store.Write("x", newSpec(t, "a"), cdi.JSON)
	test.True(t, err == nil && changed, test.Sprintf("changed %v, error %v", changed, err))
	holds(t, store.Dir, "x.json")
}

// TestWriteModes: rootless podman reads the file whatever the umask was.
func TestWriteModes(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	top := t.TempDir()
	store := cdi.Store{Dir: filepath.Join(top, "etc", "cdi")}
	_, err := store.Write("x", newSpec(t, "a"), cdi.YAML)
	must.NoError(t, err)
	for name, want := range map[string]fs.FileMode{"etc": 0o755, "etc/cdi": 0o755, "etc/cdi/x.yaml": 0o644} {
		info, err := os.Stat(filepath.Join(top, name))
		test.True(t, err == nil && info.Mode().Perm() == want,
			test.Sprintf("%s has mode %v, error %v; want %v", name, info.Mode().Perm(), err, want))
	}
	// A directory that is there belongs to somebody, and stays as it is.
	must.NoError(t, os.Chmod(store.Dir, 0o700))
	_, err = store.Write("x", newSpec(t, "b"), cdi.YAML)
	must.NoError(t, err)
	info, err := os.Stat(store.Dir)
	test.True(t, err == nil && info.Mode().Perm() == 0o700,
		test.Sprintf("directory has mode %v, error %v", info.Mode().Perm(), err))
}

// TestWriteFails: the old file stays, and nothing else.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "x.json")
	must.NoError(t, os.Mkdir(blocked, 0o755))
	_, err := (cdi.Store{Dir: dir}).Write("x", newSpec(t, "a"), cdi.JSON)
	test.Error(t, err, test.Sprint("a spec replaced a directory"))
	holds(t, dir, "x.json")
	file := filepath.Join(dir, "file")
	must.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, below := range []string{file, filepath.Join(file, "cdi")} {
		var pathErr *fs.PathError
		_, err := (cdi.Store{Dir: below}).Write("x", newSpec(t, "a"), cdi.JSON)
		test.True(t, errors.Is(err, syscall.ENOTDIR) && errors.As(err, &pathErr),
			test.Sprintf("a directory that is a file: error %v; want ENOTDIR with the path", err))
	}
}

// TestWriteConcurrently: two writers leave one whole file of one of them.
func TestWriteConcurrently(t *testing.T) {
	store := cdi.Store{Dir: filepath.Join(t.TempDir(), "cdi")}
	specs := []*specs.Spec{newSpec(t, "a"), newSpec(t, "a", "b", "c")}
	var wg sync.WaitGroup
	for _, spec := range specs {
		wg.Go(func() {
			for range 100 {
				_, err := store.Write("x", spec, cdi.JSON)
				test.NoError(t, err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(store.Path("x", cdi.JSON))
	must.NoError(t, err)
	one, err1 := cdi.Encode(specs[0], cdi.JSON)
	two, err2 := cdi.Encode(specs[1], cdi.JSON)
	must.NoError(t, errors.Join(err1, err2))
	test.True(t, bytes.Equal(got, one) || bytes.Equal(got, two), test.Sprintf("the file is neither: %s", got))
	holds(t, store.Dir, "x.json")
}

// TestWriteTwinsConcurrently: two writers with a format each leave one file, and not
// none because each removed the other's. Both begin at the same moment, or one would mostly be done before.
func TestWriteTwinsConcurrently(t *testing.T) {
	spec := newSpec(t, "a")
	store := cdi.Store{Dir: t.TempDir()}
	for round := range 2000 {
		var wg sync.WaitGroup
		var ready atomic.Int32
		for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
			wg.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				_, err := store.Write("x", spec, format)
				test.NoError(t, err)
			})
		}
		wg.Wait()
		entries, err := os.ReadDir(store.Dir)
		must.True(t, err == nil && len(entries) == 1,
			must.Sprintf("round %d: files %v, error %v; want one file", round, entries, err))
	}
}

func TestRemove(t *testing.T) {
	store := cdi.Store{Dir: t.TempDir()}
	must.NoError(t, os.WriteFile(filepath.Join(store.Dir, "other.json"), nil, 0o644))
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		_, err := store.Write("x", newSpec(t, "a"), format)
		must.NoError(t, err)
		for _, want := range []bool{true, false} {
			removed, err := store.Remove("x")
			test.True(t, err == nil && removed == want,
				test.Sprintf("%s: removed %v, error %v; want %v", format, removed, err, want))
		}
	}
	holds(t, store.Dir, "other.json")
	removed, err := (cdi.Store{Dir: filepath.Join(store.Dir, "absent")}).Remove("x")
	test.True(t, !removed && err == nil, test.Sprintf("no directory: removed %v, error %v", removed, err))
	must.NoError(t, os.MkdirAll(filepath.Join(store.Dir, "x.json", "y"), 0o755))
	_, err = store.Remove("x")
	test.Error(t, err)
}

// TestIDs: the ids of our own files, and of no others.
func TestIDs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"rdma.dev-claim_b.json", "rdma.dev-claim_a.yaml", "rdma.dev-claim_a.json", "rdma.dev-claim_uid.with.dots.json",
		"rdma.dev-claim.json", "rdma.dev-claim_.json", "rdma.dev-claim_c.yml",
		"rdma.dev-claim_d.json.tmp", "rdma.dev-claim_e",
		"rdma.dev-hca_f.json", "other.dev-claim_g.json", ".rdma.dev-123.tmp", "rdma.dev-claim_h.yaml.json",
	} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "rdma.dev-claim_dir.json"), 0o755))
	ids, err := cdi.Store{Dir: dir}.IDs(cdi.KindClaim)
	diff := cmp.Diff([]string{"a", "b", "h.yaml", "uid.with.dots"}, ids)
	test.True(t, diff == "" && err == nil, test.Sprintf("error %v, ids (-want +got):\n%s", err, diff))
	if ids, err := (cdi.Store{Dir: filepath.Join(dir, "absent")}).IDs(cdi.KindClaim); len(ids) != 0 || err != nil {
		t.Errorf("no directory: ids %v, error %v", ids, err)
	}
	_, err = (cdi.Store{Dir: filepath.Join(dir, "rdma.dev-claim.json")}).IDs(cdi.KindClaim)
	test.Error(t, err)
}

func TestSpecName(t *testing.T) {
	got := cdi.SpecName(cdi.KindHCA, "") + " " + cdi.SpecName(cdi.KindClaim,
		"uid")
	test.Eq(t, "rdma.dev-hca rdma.dev-claim_uid", got)
}

// holds checks that a directory has exactly these entries: no temporary files.
func holds(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	test.Eq(t, want, got, test.Sprint(dir))
}
