package artifacts

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// source makes a tree with one wrapper module, a program of its own.
func source(t *testing.T, program string) *Store {
	t.Helper()
	s := &Store{Cache: t.TempDir(), Source: t.TempDir()}
	write(t, filepath.Join(s.Source, "build/hello/go.mod"), "module example.com/hello\n\ngo 1.26.0\n")
	write(t, filepath.Join(s.Source, "build/hello/main.go"), program)
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

var hello = Component{Name: "hello", Targets: []string{"."}}

func TestEnsureBuildsOncePerSource(t *testing.T) {
	s := source(t, "package main\n\nfunc main() {}\n")
	dir, err := s.EnsureOne(t.Context(), hello)
	must.NoError(t, err)
	program := filepath.Join(dir, "hello")
	first, err := os.Stat(program)
	must.NoError(t, err)
	again, err := s.EnsureOne(t.Context(), hello)
	if err != nil || again != dir {
		t.Fatalf("second ensure: %q %v, want %q", again, err, dir)
	}
	if second, err := os.Stat(program); err != nil || !os.SameFile(first, second) {
		t.Errorf("it was built again: %v", err)
	}
	write(t, filepath.Join(s.Source, "build/hello/main.go"), "package main\n\nfunc main() { println() }\n")
	if other, err := s.EnsureOne(t.Context(), hello); err != nil || other == dir {
		t.Errorf("after a change: %q %v, want another directory", other, err)
	}
}

// A build that fails or was killed is never taken for a good one, and its leavings go.
func TestEnsureAfterABrokenBuild(t *testing.T) {
	s := source(t, "package main\n\nfunc main() { undefined() }\n")
	if dir, err := s.EnsureOne(t.Context(), hello); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Fatalf("got %q, %v; want the compiler's words", dir, err)
	}
	write(t, filepath.Join(s.Cache, "bin/.build-hello/hello"), "half a program")
	write(t, filepath.Join(s.Source, "build/hello/main.go"), "package main\n\nfunc main() {}\n")
	_, err := s.EnsureOne(t.Context(), hello)
	must.NoError(t, err)
	entries, err := filepath.Glob(filepath.Join(s.Cache, "bin/.build-*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestHashCoversFlags(t *testing.T) {
	s := source(t, "package main\n\nfunc main() {}\n")
	src := filepath.Join(s.Source, "build/hello")
	seen := map[string]Component{}
	for _, c := range []Component{hello, {Name: "hello", Targets: []string{"."}, Cgo: true}, {Name: "hello", Targets: []string{"."}, Tags: "x"}, {Name: "hello", Targets: []string{"."}, LDFlags: []string{"-X", "a=b"}}} {
		sum, err := s.hash(src, c, "v1.2.3")
		must.NoError(t, err)
		if other, ok := seen[sum]; ok {
			t.Errorf("%+v and %+v share the hash %s", c, other, sum)
		}
		seen[sum] = c
	}
}

// Every component's wrapper module is there and pins a version.
func TestComponentsArePinned(t *testing.T) {
	want := map[string]string{
		"kubernetes": "v1.37.2", "containerd": "v2.4.2", "etcd": "v3.7.0", "runc": "v1.5.2",
		"cni": "v1.9.1", "helm": "v3.22.0", "pause": "local",
	}
	for release, kubernetes := range map[string]string{
		"": want["kubernetes"], "1.34": "v1.34.4", "1.35": "v1.35.4", "1.36": "v1.36.3",
	} {
		want := maps.Clone(want)
		want["kubernetes"] = kubernetes
		for _, c := range Components(release) {
			version, err := moduleVersion(filepath.Join("../../build", c.wrapper()), c.Module)
			if err != nil || version != want[c.Name] {
				t.Errorf("%s of %q: got %q, %v; want %q", c.Name, release, version, err, want[c.Name])
			}
		}
	}
}

// helmCapabilities cannot read the version from the wrapper's go.mod.
func TestHelmAssumesTheClustersVersion(t *testing.T) {
	version, err := moduleVersion("../../build/cluster", "k8s.io/kubernetes")
	must.NoError(t, err)
	minor := strings.Split(version, ".")[1]
	if flags := strings.Join(helmCapabilities(), " "); !strings.Contains(flags, "k8sVersionMinor="+minor) {
		t.Errorf("helm is stamped with %s, the cluster is %s", flags, version)
	}
}

// A module that the driver and the cluster have in two versions is compiled twice, with all that imports it.
func TestOneVersionWithTheDriver(t *testing.T) {
	driver, shared := requirements(t, "../../../../go.mod"), requirements(t, "../../build/cluster/go.mod")
	for module, version := range driver {
		if other := shared[module]; other != "" && other != version && other != "v0.0.0" {
			t.Errorf("%s: the driver has %s, the cluster %s: raise the older one by `go get %[1]s@VERSION`", module, version, other)
		}
	}
}

// requirements reads which module has which version, replacements by another version included.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	versions := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		switch {
		case len(f) == 4 && f[1] == "=>":
			versions[f[0]] = f[3]
		case len(f) >= 2 && strings.HasPrefix(f[1], "v") && versions[f[0]] == "":
			versions[f[0]] = f[1]
		}
	}
	return versions
}
