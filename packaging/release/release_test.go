package release

import (
	"bytes"
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

// release is the files of a release that the tests look at, made once.
type release struct {
	once sync.Once
	dir  string
	says string
	err  error
}

// made is the release, and before is its release candidate.
var made, before release

// homepage is the project's site, and arches are the architectures that packages are made for.
const homepage = "https://github.com/rdma-dev/dra-driver-rdma"

var arches = []string{"amd64", "arm64"}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(made.dir)
	os.RemoveAll(before.dir)
	os.Exit(code)
}

// dist makes the files of a release from a checkout, and returns what packaging/dist.sh says.
func dist(t *testing.T, source, out, version string, env ...string) (says string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(source, "packaging/dist.sh"), version, out)
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
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
			made.says, made.err = dist(t, filepath.Join(made.dir, "source"), filepath.Join(made.dir, "out"), version,
				"PLATFORMS=", "IMAGES="+runtime.GOARCH)
		}
	})
	must.NoError(t, made.err, must.Sprint(made.says))
	return filepath.Join(made.dir, "out"), filepath.Join(made.dir, "source")
}

// candidate returns a directory with packages and the plugin for this architecture alone, of the version before that of
// packages.
func candidate(t *testing.T) (dir string) {
	t.Helper()
	_, source := packages(t)
	before.once.Do(func() {
		if before.dir, before.err = os.MkdirTemp("", "candidate-"); before.err == nil {
			before.says, before.err = dist(t, source, before.dir, "v1.2.3-rc.1",
				"ARCHES="+runtime.GOARCH, "PLATFORMS=linux/"+runtime.GOARCH, "IMAGES=")
		}
	})
	must.NoError(t, before.err, must.Sprint(before.says))
	return before.dir
}

// copyCheckout copies what is packaged, and what that is built from.
func copyCheckout(to string) error {
	for _, name := range []string{
		"go.mod", "go.sum", "LICENSE", "README.md", "cmd", "internal", "pkg", "docs", "deployments",
		"hack", "packaging",
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
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.NoError(t, err, must.Sprintf("%s: %s", cmd, stderr.Bytes()))
	return string(out)
}

// TestReproducible: a second run, in another directory, under another umask, time zone and environment, makes the same
// bytes. What it does not make is the packages of the first architecture, which the same lines make.
func TestReproducible(t *testing.T) {
	first, source := packages(t)
	other := filepath.Join(t.TempDir(), "in", "quite", "another", "place")
	must.NoError(t, os.CopyFS(other, os.DirFS(source)))
	second := filepath.Join(t.TempDir(), "out")
	defer syscall.Umask(syscall.Umask(0o077))
	says, err := dist(t, other, second, version, "ARCHES=arm64", "PLATFORMS=", "IMAGES="+runtime.GOARCH,
		"TZ=Pacific/Kiritimati", "LANG=de_DE.UTF-8", "GOAMD64=v3", "GOFLAGS=-tags=other", "HOSTNAME=another", "USER=somebody")
	must.NoError(t, err, must.Sprint(says))
	made := names(t, second) // nothing is left behind
	test.Eq(t, perArch+deployed+1, len(made), test.Sprintf("packages %q", made))
	for _, name := range made {
		a, errA := os.ReadFile(filepath.Join(first, name))
		b, errB := os.ReadFile(filepath.Join(second, name))
		must.NoError(t, errors.Join(errA, errB))
		if name == "SHA256SUMS" { // the first run has made more
			for line := range strings.Lines(string(b)) {
				test.StrContains(t, string(a), line)
			}
			continue
		}
		test.True(t, bytes.Equal(a, b), test.Sprintf("%s differs between two runs", name))
	}
}

func TestChecksums(t *testing.T) {
	dir, _ := packages(t)
	out := tool(t, "sh", "-c", "cd "+dir+" && sha256sum --check --strict SHA256SUMS")
	if n := strings.Count(out, ": OK\n"); n != perArch*len(arches)+deployed {
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
		if got := strings.TrimSpace(tool(t, "../package-version.sh", test.in)); got != test.want {
			t.Errorf("%q is %q; want %q", test.in, got, test.want)
		}
	}
}

// TestVersionOrder: dpkg puts a release candidate before its release, and commits
// after a tag between it and the next.
func TestVersionOrder(t *testing.T) {
	need(t, "dpkg", "dpkg")
	var before string
	for _, v := range []string{"abcdef0", "v1.2.3-rc.1", "v1.2.3-rc.1-2-gfff0000", "v1.2.3", "v1.2.3-4-g0000000", "v1.2.3-40-g0000000", "v1.2.4"} {
		p := strings.TrimSpace(tool(t, "../package-version.sh", v))
		if before != "" {
			tool(t, "dpkg", "--compare-versions", before, "lt", p)
		}
		before = p
	}
}

// TestRefused: what cannot be packaged leaves nothing behind, and the message says why.
func TestRefused(t *testing.T) {
	_, packaged := packages(t)
	broken := t.TempDir() // no Go module
	must.NoError(t, os.CopyFS(filepath.Join(broken, "packaging"), os.DirFS(filepath.Join(packaged, "packaging"))))
	must.NoError(t, os.CopyFS(filepath.Join(broken, "hack"), os.DirFS(filepath.Join(packaged, "hack"))))
	for _, test := range []struct{ why, source, version, env, want string }{
		{"no version", checkout, "", "", "want VERSION DIRECTORY"},
		{"an architecture", checkout, version, "ARCHES=s390x", `"s390x": want amd64 or arm64`},
		{"an image's architecture", checkout, version, "IMAGES=s390x", `"s390x": want amd64 or arm64`},
		{"a platform", checkout, version, "PLATFORMS=plan9/386", `"plan9/386": want linux or darwin`},
		{"a version that is not the chart's", checkout, version, "ARCHES=", "has appVersion"},
		{"a date", checkout, version, "SOURCE_DATE_EPOCH=yesterday", `SOURCE_DATE_EPOCH "yesterday": want seconds`},
		{"no date", broken, version, "SOURCE_DATE_EPOCH=", "set SOURCE_DATE_EPOCH"},
		{"no module", broken, version, "IMAGES=", "go.mod"},
	} {
		out := t.TempDir()
		says, err := dist(t, test.source, out, test.version, test.env)
		if err == nil || !strings.Contains(says, test.want) {
			t.Errorf("%s: %v: %s", test.why, err, says)
		}
		if left := names(t, out); len(left) > 0 {
			t.Errorf("%s: left behind %q", test.why, left)
		}
	}
}
