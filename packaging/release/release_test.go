package release

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// checkout is the checkout this package is in.
const checkout = "../.."

// version is that of the packages of the tests, and epoch and date when they are from.
const (
	version = "v1.2.3"
	epoch   = "1700000000"
)

// How many files there are of each architecture of cdi-gen (deb, rpm, tar.gz, bill of
// materials), and for a cluster (chart, manifests, and of two images bill of materials, image and index).
const perArch, deployed = 4, 8

var date = time.Unix(1700000000, 0).UTC()

// made is the packages that the tests look at, made once.
var made struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if made.dir != "" {
		os.RemoveAll(made.dir)
	}
	os.Exit(code)
}

// packages returns a directory with packages, made from a copy of the checkout so
// that nobody edits it meanwhile: source is that copy.
func packages(t *testing.T) (dir, source string) {
	t.Helper()
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "packages-"); made.err == nil {
			made.err = copyCheckout(filepath.Join(made.dir, "source"))
		}
		if made.err == nil {
			_, made.err = Package(t.Context(), Options{Source: filepath.Join(made.dir, "source"), Out: filepath.Join(made.dir, "out"), Version: version, Date: date, Images: []string{runtime.GOARCH}})
		}
	})
	must.NoError(t, made.err)
	return filepath.Join(made.dir, "out"), filepath.Join(made.dir, "source")
}

// copyCheckout copies what is packaged, and what that is built from.
func copyCheckout(to string) error {
	for _, name := range []string{
		"go.mod", "go.sum", "LICENSE", "README.md", "cmd", "internal", "pkg", "docs", "deployments",
		"tools/image", "packaging",
	} {
		from := filepath.Join(checkout, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = os.CopyFS(filepath.Join(to, name), os.DirFS(from))
		} else {
			err = copyFile(from, filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	return tagCheckout(to)
}

// tagCheckout does what comes before a tag: the chart names the version.
func tagCheckout(dir string) error {
	for _, name := range []string{"deployments/helm/dra-driver-rdma/Chart.yaml", "deployments/manifests/dra-driver-rdma.yaml"} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data = regexp.MustCompile(`v\d+\.\d+\.\d+`).ReplaceAll(data, []byte(version))
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// need returns the path of a program, or skips the test; in continuous integration
// it fails instead.
func need(t *testing.T, program, from string) string {
	t.Helper()
	found, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%v: install the package %s", err, from)
	default:
		t.Skipf("%v: install the package %s to run this test", err, from)
	}
	return found
}

// tool runs a program and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), "", nil, name, args...)
	must.NoError(t, err)
	return string(out)
}

// TestReproducible: a second run, in another directory, under another umask, time
// zone and environment, makes the same bytes.
func TestReproducible(t *testing.T) {
	first, source := packages(t)
	other := filepath.Join(t.TempDir(), "in", "quite", "another", "place")
	must.NoError(t, os.CopyFS(other, os.DirFS(source)))
	second := filepath.Join(t.TempDir(), "out")
	for name, value := range map[string]string{
		"TZ": "Pacific/Kiritimati", "LANG": "de_DE.UTF-8",
		"GOAMD64": "v3", "GOFLAGS": "-tags=other", "HOSTNAME": "another", "USER": "somebody",
	} {
		t.Setenv(name, value)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	names, err := Package(t.Context(), Options{Source: other, Out: second, Version: version, Date: date, Images: []string{runtime.GOARCH}})
	must.NoError(t, err)
	test.Eq(t, perArch*len(Arches)+deployed+1, len(names), test.Sprintf("packages %q", names))
	for _, name := range names {
		a, errA := os.ReadFile(filepath.Join(first, name))
		b, errB := os.ReadFile(filepath.Join(second, name))
		must.NoError(t, errors.Join(errA, errB))
		test.True(t, bytes.Equal(a, b), test.Sprintf("%s differs between two runs", name))
	}
	left, err := filepath.Glob(filepath.Join(second, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestChecksums(t *testing.T) {
	dir, _ := packages(t)
	out, err := command(t.Context(), dir, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	must.NoError(t, err)
	if n := strings.Count(string(out), ": OK\n"); n != perArch*len(Arches)+deployed {
		t.Errorf("%d packages in SHA256SUMS:\n%s", n, out)
	}
}

func TestPackageVersion(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"v1.2.3", "1.2.3"},
		{"1.2.3", "1.2.3"},
		{"v1.2.3-rc.1", "1.2.3~rc.1"},
		{"v1.2.3-4-gabcdef0", "1.2.3+4.gabcdef0"},
		{"v1.2.3-rc.1-4-gabcdef0-dirty", "1.2.3~rc.1+4.gabcdef0.dirty"},
		{"v1.2.3-dirty", "1.2.3+dirty"},
		{"abcdef0", "0.0.0+abcdef0"},
		{"abcdef0-dirty", "0.0.0+abcdef0.dirty"},
		{"devel", "0.0.0+devel"},
	} {
		got, err := packageVersion(test.in)
		if err != nil || got != test.want {
			t.Errorf("%q is %q, %v; want %q", test.in, got, err, test.want)
		}
	}
	if _, err := packageVersion(""); err == nil {
		t.Error("a package without a version")
	}
}

// TestVersionOrder: dpkg puts a release candidate before its release, and commits
// after a tag between it and the next.
func TestVersionOrder(t *testing.T) {
	need(t, "dpkg", "dpkg")
	var before string
	for _, v := range []string{"abcdef0", "v1.2.3-rc.1", "v1.2.3-rc.1-2-gfff0000", "v1.2.3", "v1.2.3-4-g0000000", "v1.2.3-40-g0000000", "v1.2.4"} {
		p, err := packageVersion(v)
		must.NoError(t, err)
		if before != "" {
			tool(t, "dpkg", "--compare-versions", before, "lt", p)
		}
		before = p
	}
}

func TestDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	if got, err := Date(t.Context(), "/nonexistent"); err != nil || got.Unix() != 1700000000 || got.Location() != time.UTC {
		t.Errorf("date %v, %v", got, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := Date(t.Context(), checkout); err == nil || !strings.Contains(err.Error(), `SOURCE_DATE_EPOCH "yesterday"`) {
		t.Errorf("error %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if _, err := Date(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "set SOURCE_DATE_EPOCH") {
		t.Errorf("outside of a checkout: %v", err)
	}
}

// TestRefused: what cannot be packaged leaves nothing behind.
func TestRefused(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	broken := t.TempDir() // no Go module
	for _, test := range []struct {
		why  string
		o    Options
		want string
	}{
		{"no version", Options{Source: checkout}, "give --version"},
		{"an architecture", Options{Source: checkout, Version: version, Arches: []string{"s390x"}}, `"s390x": want amd64 or arm64`},
		{"an image's architecture", Options{Source: checkout, Version: "v1.2.3-4-gabcdef0", Arches: []string{runtime.GOARCH}, Images: []string{"s390x"}}, `"s390x": want amd64 or arm64`},
		{"a version that is not the chart's", Options{Source: checkout, Version: version, Arches: []string{runtime.GOARCH}, Images: []string{runtime.GOARCH}}, "has appVersion"},
		{"no module", Options{Source: broken, Version: version, Arches: []string{runtime.GOARCH}}, "build for " + runtime.GOARCH},
	} {
		test.o.Out = t.TempDir()
		_, err := Package(t.Context(), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v", test.why, err)
		}
		if left, err := os.ReadDir(test.o.Out); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", test.why, left, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Package(ended, Options{Source: checkout, Out: t.TempDir(), Version: version}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestUnits: unit files and udev rules are packaged once they are there.
func TestUnits(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{
		"LICENSE", "docs/cdi-gen.svg", "docs/adr/0001.svg", "packaging/default/cdi-gen",
		"packaging/debian/lintian-overrides", "packaging/systemd/cdi-gen.service", "packaging/systemd/cdi-gen.path",
		"packaging/systemd/README.md", "packaging/udev/60-cdi-gen.rules",
	} {
		must.NoError(t, copyFile(filepath.Join(checkout, "LICENSE"), filepath.Join(source, name)))
	}
	r := &run{Options: Options{Source: source}}
	files, err := r.texts()
	must.NoError(t, err)
	var got []string
	for _, f := range forKind("rpm", files) {
		got = append(got, f.path)
	}
	want := "/etc/default/cdi-gen /usr/lib/systemd/system/cdi-gen.path /usr/lib/systemd/system/cdi-gen.service " +
		"/usr/lib/udev/rules.d/60-cdi-gen.rules /usr/share/doc/cdi-gen/cdi-gen.svg /usr/share/licenses/cdi-gen/LICENSE"
	test.Eq(t, want, strings.Join(got, " "), test.Sprintf("files %q", got))
	must.NoError(t, os.Remove(filepath.Join(source, "LICENSE")))
	if _, err := r.texts(); err == nil || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("without a license: %v", err)
	}
}
