package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// codes are the exit codes of generate on the machines where it is not 0.
var codes = map[string]int{
	"none": exitNothing, "empty-classes": exitNothing, "misbehaving": exitPartial,
	"exclusive-netns": exitExclusive, "soft-pci": exitExclusive,
}

// TestGenerate: on every machine the spec is what its golden file says, twice in a
// row byte for byte, and a runtime of 2022 can read it.
func TestGenerate(t *testing.T) {
	for _, name := range fixture.Names() {
		t.Run(name, func(t *testing.T) {
			root := host(t, name)
			want := codes[name]
			if want == exitExclusive {
				r := cdigen(t, "generate", "--host-root", root, "--no-hook")
				r.expect(t, exitExclusive, "set \"options ib_core netns_mode=1\"")
				test.Eq(t, "", r.stdout, test.Sprint("printed"))
				want = exitOK
			}
			for _, format := range formats(name) {
				args := []string{"generate", "--host-root", root, "--no-hook", "--output", format, "--allow-exclusive-netns"}
				first, second := cdigen(t, args...), cdigen(t, args...)
				test.Eq(t, first, second, test.Cmp(cmp.AllowUnexported(result{})), test.Sprint("two runs differ"))
				if first.code != want || (first.stderr == "") != (want == exitOK) {
					t.Errorf("exit code %d, standard error %q; want %d", first.code, first.stderr, want)
				}
				if want == exitNothing {
					test.Eq(t, "", first.stdout, test.Sprint("an empty spec"))
					continue
				}
				checkGolden(t, filepath.Join("generate", name+"."+format), first.stdout)
				loads(t, first.stdout, format)
			}
		})
	}
}

// formats gives the machines whose YAML is kept besides their JSON.
func formats(machine string) []string {
	if slices.Contains([]string{"hgx-h100", "roce-lag", "soft", "none"}, machine) {
		return []string{"json", "yaml"}
	}
	return []string{"json"}
}

// loads checks that the CDI library takes a spec, as version 0.5.0 or lower.
func loads(t *testing.T, spec, format string) *cdiapi.Spec {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rdma.dev-hca."+format)
	put(t, file, spec, 0o644)
	got, err := cdiapi.ReadSpec(file, 0)
	must.NoError(t, err, must.Sprint("the CDI library refuses the spec"))
	test.True(t, slices.Contains([]string{"0.3.0", "0.4.0", "0.5.0"}, got.Version),
		test.Sprintf("CDI %s; podman 4.3 knows 0.5.0", got.Version))
	return got
}

// TestGoldenFilesAreUsed: a machine that was renamed leaves no file behind.
func TestGoldenFilesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/generate/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files %v, error %v", files, err)
	}
	for _, file := range files {
		name, format, _ := strings.Cut(filepath.Base(file), ".")
		if !slices.Contains(fixture.Names(), name) || codes[name] == exitNothing || !slices.Contains(formats(name), format) {
			t.Errorf("%s belongs to no machine", file)
		}
	}
}

// TestGenerateHookReplaceable: as root, a hook that a user could replace does not go into a
// spec, wherever the way to it is open: the runtime would run the user's program as root.
func TestGenerateHookReplaceable(t *testing.T) {
	needs.Root(t, "changing owners")
	for name, change := range map[string]func(root string) error{
		"file":                  func(root string) error { return os.Lchown(root+"/usr/bin/rdma-hook", 4711, 0) },
		"directory":             func(root string) error { return os.Chmod(root+"/usr/bin", 0o775) },
		"directory of a parent": func(root string) error { return os.Lchown(root+"/usr", 4711, 0) },
		"link": func(root string) error {
			home := root + "/home"
			return errors.Join(os.Mkdir(home, 0o777), os.Chmod(home, 0o777), os.Rename(root+"/usr/bin/rdma-hook", home+"/hook"),
				os.Symlink("/home/hook", root+"/usr/bin/rdma-hook"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := site(t, "roce-lag")
			put(t, filepath.Join(root, "usr/bin/rdma-hook"), "", 0o755)
			args := []string{"generate", "--output", "json", "--host-root", root}
			cdigen(t, args...).expect(t, exitOK, "")
			must.NoError(t, change(root))
			for _, further := range [][]string{nil, {"--hook-path", "/usr/bin/rdma-hook"}} {
				r := cdigen(t, append(args, further...)...)
				r.expect(t, exitHook, `"/usr/bin/rdma-hook": others than root can replace it, and it would run as root: `)
				if r.stdout != "" || !strings.Contains(r.stderr, "chown") && !strings.Contains(r.stderr, "chmod") {
					t.Errorf("standard output %q, standard error %q; want no spec, and the remedy", r.stdout, r.stderr)
				}
			}
		})
	}
}
