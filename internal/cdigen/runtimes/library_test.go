package runtimes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// short are the libraries of a normal run: podman of Debian 12, the last one with faults, and the first without. The
// others are built with TEST_LONG=1.
var short = []string{"0.5.2", "1.1.0", "1.1.1"}

// TestLibraries: what we say of each release of the CDI library is what the release does with the same files.
func TestLibraries(t *testing.T) {
	root := t.TempDir()
	cases := append(specCases(), dirCases...)
	var input strings.Builder
	for i := range cases {
		cases[i].make(t, filepath.Join(root, fmt.Sprint(i)), &input)
	}
	asked := map[string]bool{}
	for _, name := range runtimes.Known() {
		target, err := runtimes.Lookup(name)
		must.NoError(t, err)
		library := target.Library
		if library == "" || asked[library] || os.Getenv("TEST_LONG") == "" && !slices.Contains(short, library) {
			continue
		}
		asked[library] = true
		t.Run(library, func(t *testing.T) {
			if library == "0.3.2" {
				t.Skip("the checksum database does not know this release")
			}
			answers := ask(t, library, input.String())
			must.Eq(t, len(cases), len(answers), must.Sprint("answers"))
			for i, c := range cases {
				c.compare(t, target, answers[i])
			}
		})
	}
	test.GreaterEq(t, len(short), len(asked), test.Sprintf("the table has only the libraries %v", asked))
}

// answer is what testdata/library prints.
type answer struct {
	Devices []string
	Panics  bool
}

// ask builds the program with a release of the library, and runs it.
func ask(t *testing.T, library, input string) (answers []answer) {
	t.Helper()
	const source = "testdata/library"
	module, tags := "tags.cncf.io/container-device-interface", ""
	if library < "0.6.2" {
		module, tags = "github.com/container-orchestrated-devices/container-device-interface", "old"
	}
	if library == "0.4.0" {
		tags += ",oldest"
	}
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(source, "go.sum"))
	mod := fmt.Sprintf("module library\n\ngo 1.24\n\nrequire %s v%s\n", module, library)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644))
	must.NoError(t, err)
	program := filepath.Join(dir, "library")
	build := exec.Command("go", "build", "-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "-tags="+tags,
		"-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		needs.Missing(t, fmt.Errorf("build with CDI library %s: %w: %s", library, err, out))
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	must.NoError(t, err)
	for in := json.NewDecoder(strings.NewReader(string(out))); in.More(); {
		var a answer
		must.NoError(t, in.Decode(&a))
		answers = append(answers, a)
	}
	return answers
}

// question is a host with two directories of specs.
type question struct {
	name  string
	files map[string]string // by path; a value "-> x" is a link
	dir   string            // of this test
}

func (q *question) dirs() []string {
	return []string{filepath.Join(q.dir, "etc"), filepath.Join(q.dir, "run")}
}

func (q *question) make(t *testing.T, dir string, input *strings.Builder) {
	t.Helper()
	q.dir = dir
	must.NoError(t, os.MkdirAll(dir, 0o755))
	fixture.WriteFiles(t, dir, q.files)
	must.NoError(t, json.NewEncoder(input).Encode(q.dirs()))
}

// compare compares the answer of a library with what we say of it. Of a file that we reject for all runtimes, we say
// only whether the library panics.
func (q *question) compare(t *testing.T, target runtimes.Target, got answer) {
	t.Helper()
	host := hostfs.DirFS("/")
	unread := map[string]bool{}
	for _, u := range target.Unread(runtimeconf.Stat(host, q.dirs()...)) {
		unread[u.Path] = true
	}
	var want answer
	rejected := false
	for _, dir := range q.dirs() {
		if unread[dir] {
			continue
		}
		paths, _ := filepath.Glob(filepath.Join(dir, "*.[jy][sa][om][nl]"))
		for _, file := range paths {
			read := cdi.ReadFile(hostfs.DirFS("/"), file)
			spec, err := read.Spec, read.Err
			if errors.Is(err, cdi.ErrPanics) {
				null := strings.Contains(err.Error(), "null") // all releases panic on it
				want.Panics = want.Panics || null || target.Library < runtimes.FollowsLink
			}
			if err == nil {
				if err = target.Check(spec); err != nil && strings.Contains(err.Error(), "panics") {
					want.Panics = true
					continue
				}
			} else {
				rejected = true
			}
			if err == nil {
				want.Devices = append(want.Devices, devices(spec)...)
			}
		}
	}
	if want.Panics {
		want.Devices = nil
	}
	if rejected && !want.Panics && !got.Panics {
		return
	}
	slices.Sort(want.Devices)
	test.Eq(t, want, got, test.Cmp(cmpopts.EquateEmpty()),
		test.Sprintf("%s (-what we say +what the library does)", q.name))
}

func devices(spec *specs.Spec) []string {
	var names []string
	for _, d := range spec.Devices {
		names = append(names, cdi.Qualified(spec.Kind, d.Name))
	}
	return names
}

// yamlSpec is a spec, with parts to replace.
func yamlSpec(replace ...string) string {
	return strings.NewReplacer(replace...).Replace("cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices:\n- name: one\n" +
		"  containerEdits: {env: [A=b]}\n")
}

const (
	oneDevice = "one\n  containerEdits: {env: [A=b]}"
	edits     = "env: [A=b]"
)

// specCases are files that two libraries read differently, or might.
func specCases() []question {
	var cases []question
	add := func(name string, replace ...string) {
		cases = append(cases, question{name: name, files: map[string]string{"etc/s.yaml": yamlSpec(replace...), "run/x": ""}})
	}
	for _, kind := range []string{"a/hca", "rdma.dev/h", "a/b", "A/BB", "ab/cd", "rdma.dev/h.ca", "a.b/c_d", "rdma_x/hca",
		"1a/hca", "rdma.dev/1h", "rdma.dev", "rdma.dev/hca/x", "é/hca", "rdma.dev/é"} {
		add("kind "+kind, "rdma.dev/hca", kind)
	}
	for _, name := range []string{"o", "1", `"1"`, "1one", "on", "No", "y", `"y"`, "true", "1.5", "0x10", "1e3",
		"07", "0o7", ".5", "+1", "2001-01-01", "12:30:45", `"0000:3b:00.0"`, "one.", "one:1", "-one"} {
		for _, version := range []string{"0.3.0", "0.5.0"} {
			add("name "+name+" "+version, ": one", ": "+name, "0.3.0", version)
		}
	}
	for _, version := range []string{"0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0", "1.2.0", "v0.3.0",
		"0.3"} {
		add("version "+version, "0.3.0", version)
	}
	for edit, version := range map[string]string{"additionalGids: [5]": "0.7.0", "additionalGids: []": "0.3.0",
		"netDevices: []": "0.3.0", "intelRdt: {closID: a}": "0.7.0", "netDevices: [{hostInterfaceName: a, name: b}]": "1.1.0",
		"mounts: [{hostPath: /a, containerPath: /b, type: bind}]": "0.4.0",
		"deviceNodes: [{path: /dev/null, hostPath: /dev/zero}]":   "0.5.0", "hooks: []": "0.3.0", "unknown: 1": "0.3.0",
		"intelRdt: {closID: a, schemata: [b]}": "1.1.0", "Env: [A=b]": "0.3.0", "mounts: [~]": "0.3.0"} {
		add("edit "+edit, edits, edits+", "+edit, "0.3.0", version)
	}
	add("two devices", oneDevice, oneDevice+"\n- name: two\n  containerEdits: {env: [A=c]}")
	add("the same device twice", oneDevice, oneDevice+"\n- name: "+oneDevice)
	add("annotations", "devices:", "annotations: {a: b}\ndevices:", "0.3.0", "0.6.0")
	add("empty annotations", "devices:", "annotations: {}\ndevices:")
	add("no edits", edits, "")
	cases = append(cases,
		question{name: "JSON", files: map[string]string{"etc/s.json": `{"cdiVersion":"0.3.0","kind":"rdma.dev/hca",` +
			`"devices":[{"name":"one","containerEdits":{"env":["A=b"]}}]}`}},
		question{name: "extensions", files: map[string]string{"etc/a.yml": yamlSpec(),
			"etc/b.YAML": yamlSpec(": one", ": two"), "etc/.c.yaml": yamlSpec(": one", ": three")}})
	return cases
}

// dirCases are directories that two libraries read differently, or might.
var dirCases = []question{
	{name: "linked directory", files: map[string]string{"real/s.yaml": yamlSpec(), "etc": "-> real",
		"run/t.yaml": yamlSpec(": one", ": two")}},
	{name: "dangling directory", files: map[string]string{"etc": "-> nowhere", "run/t.yaml": yamlSpec()}},
	{name: "missing directory", files: map[string]string{"run/t.yaml": yamlSpec()}},
	{name: "both missing", files: map[string]string{"x": ""}},
	{name: "file in its place", files: map[string]string{"etc": "", "run/t.yaml": yamlSpec()}},
	{name: "linked parent", files: map[string]string{"x/etc/s.yaml": yamlSpec(), "y": "-> x", "etc": "-> y/etc"}},
	{name: "linked file", files: map[string]string{"real/s.yaml": yamlSpec(), "etc/s.yaml": "-> ../real/s.yaml"}},
	{name: "subdirectory", files: map[string]string{"etc/sub/s.yaml": yamlSpec(),
		"etc/t.yaml": yamlSpec(": one", ": two")}},
	{name: "linked subdirectory", files: map[string]string{"real/s.yaml": yamlSpec(), "etc/x": "-> ../real"}},
}
