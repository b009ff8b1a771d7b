package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// What is not a spec of our kind is nobody's but its owner's, whatever its name: it is neither
// replaced nor removed.

// noSpecs are files that a user may have under a name that cdi-gen is given, by what says so.
var noSpecs = map[string]string{
	"has no cdiVersion":                "name: chart\nversion: 1.0.0\n",
	"has no kind":                      "cdiVersion: 0.3.0\n",
	"it is empty":                      "",
	"is a list or a single value":      "- a\n- b\n",
	"is not one document of JSON":      "{\"name\": ",
	"it has more than one document":    "cdiVersion: 0.3.0\nkind: rdma.dev/hca\n---\nkind: Secret\n",
	`mapping key "kind" already`:       "cdiVersion: 0.3.0\nkind: rdma.dev/hca\nkind: Secret\n",
	"is a spec of kind nvidia.com/gpu": gpuSpec,
	"is a spec of kind rdma.dev/claim": strings.Replace(gpuSpec, "nvidia.com/gpu", "rdma.dev/claim", 1),
}

// contents returns what stands below a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		all[e.Name()] = e.Type().String()
		if link, err := os.Readlink(file); err == nil {
			all[e.Name()] += " " + link
		} else if e.Type().IsRegular() {
			data, err := os.ReadFile(file)
			must.NoError(t, err)
			all[e.Name()] += " " + string(data)
		}
	}
	return all
}

func sameContents(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, content := range before {
		test.Eq(t, content, after[name], test.Sprintf("%s: %s", what, name))
	}
}

// TestOutputOfNoSpec: with devices on the host and without, generate and remove leave a file
// alone that is no spec of ours, under the given name and beside it.
func TestOutputOfNoSpec(t *testing.T) {
	for says, content := range noSpecs {
		dir := t.TempDir()
		file, twin := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "values.json")
		put(t, file, content, 0o644)
		put(t, twin, content, 0o600)
		before := contents(t, dir)
		for _, machine := range []string{"roce-lag", "none"} {
			for _, args := range [][]string{nil, {"--check"}} {
				generateTo(t, machine, file, args...).expect(t, exitUsage, `"`+file+`" `)
				generateTo(t, machine, file, args...).expect(t, exitUsage, says)
			}
		}
		cdigen(t, "remove", "--from", file).expect(t, exitUsage, says)
		cdigen(t, "watch", "--no-hook", "--host-root", host(t, "none"), "--to", file).expect(t, exitUsage, says)
		sameContents(t, says, before, contents(t, dir))

		// Under the name that a directory gets.
		own := filepath.Join(dir, "rdma.dev-hca.yaml")
		put(t, own, content, 0o644)
		generateTo(t, "roce-lag", dir).expect(t, exitUsage, says)
		generateTo(t, "none", dir).expect(t, exitUsage, says)
		cdigen(t, "remove", "--from", dir).expect(t, exitUsage, says)
		before = contents(t, dir)

		// As the twin only.
		put(t, filepath.Join(dir, "package.json"), content, 0o644)
		before["package.json"] = "---------- " + content
		generateTo(t, "none", filepath.Join(dir, "package.yaml")).expect(t, exitNothing, "no RDMA device")
		cdigen(t, "remove", "--from", filepath.Join(dir, "package.yaml")).
			expect(t, exitNothing, "no spec of kind rdma.dev/hca")
		generateTo(t, "roce-lag", filepath.Join(dir, "package.yaml")).expect(t, exitOK, "written")
		generateTo(t, "roce-lag", filepath.Join(dir, "package.yaml"), "--check").expect(t, exitOK, "fits the host")
		cdigen(t, "remove", "--from", filepath.Join(dir, "package.yaml")).expect(t, exitOK, "removed")
		sameContents(t, says, before, contents(t, dir))
	}
}

// TestOutputOfNoFile: links, pipes, directories, devices and large files are neither waited for nor
// touched.
func TestOutputOfNoFile(t *testing.T) {
	for says, plant := range map[string]func(file string) error{
		"is a directory":          func(file string) error { return os.Mkdir(file, 0o755) },
		"is no regular file":      func(file string) error { return syscall.Mkfifo(file, 0o644) },
		"is a link to nothing":    func(file string) error { return os.Symlink("absent", file) },
		"too many levels of symb": func(file string) error { return os.Symlink(filepath.Base(file), file) },
		"larger than any spec": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o644),
				os.Truncate(file, 4<<30))
		},
		"is a spec of kind other/x": linkTo("other/x"),
	} {
		for _, machine := range []string{"roce-lag", "none"} {
			dir := t.TempDir()
			file, twin := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "x.json")
			must.NoError(t, errors.Join(plant(file), plant(twin)))
			stays := func(what string) {
				t.Helper()
				for _, path := range []string{file, twin} {
					if _, err := os.Lstat(path); err != nil {
						t.Errorf("%s: %s: %v", says, what, err)
					}
				}
			}
			if says == "is a directory" { // then it is one to write to
				file = filepath.Join(dir, "rdma.dev-hca.yaml")
				must.NoError(t, plant(file))
				generateTo(t, machine, dir).expect(t, exitUsage, says)
				cdigen(t, "remove", "--from", dir).expect(t, exitUsage, says)
				stays("directory")
				continue
			}
			generateTo(t, machine, file).expect(t, exitUsage, says)
			generateTo(t, machine, file, "--check").expect(t, exitUsage, says)
			cdigen(t, "remove", "--from", file).expect(t, exitUsage, says)
			stays(machine)
		}
	}
}

// linkTo plants a link to the spec of a kind.
func linkTo(kind string) func(string) error {
	return func(file string) error {
		spec := strings.Replace(gpuSpec, "nvidia.com/gpu", kind, 1)
		elsewhere := filepath.Join(filepath.Dir(file), "elsewhere")
		return errors.Join(os.WriteFile(elsewhere, []byte(spec), 0o644), os.Symlink(elsewhere, file))
	}
}

// TestOutputLink: a link to a spec of ours is replaced, since runtimes read the devices through it,
// and so --check says that it does not fit. What it leads to stays.
func TestOutputLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "spec.yaml")
	file, twin := filepath.Join(dir, "rdma.dev-hca.yaml"), filepath.Join(dir, "rdma.dev-hca.json")
	generateTo(t, "roce-lag", elsewhere).expect(t, exitOK, "written")
	before := contents(t, filepath.Dir(elsewhere))
	for _, link := range []string{file, twin} {
		must.NoError(t, os.Symlink(elsewhere, link))
	}
	r := generateTo(t, "roce-lag", dir, "--check")
	r.expect(t, exitDrift, file+" is a link instead of a file of its own, "+twin+" should not exist")
	generateTo(t, "roce-lag", dir).expect(t, exitOK, "written")
	generateTo(t, "roce-lag", dir, "--check").expect(t, exitOK, "fits the host")
	holds(t, dir, "rdma.dev-hca.yaml")
	sameContents(t, "behind the link", before, contents(t, filepath.Dir(elsewhere)))
}

// TestOutputWords: a dash is standard output, as with other programs, and a device is no directory.
func TestOutputWords(t *testing.T) {
	t.Chdir(t.TempDir())
	printed := cdigen(t, "generate", "--no-hook", "--host-root", host(t, "roce-lag"))
	if r := generateTo(t, "roce-lag", "-"); r.code != exitOK || r.stdout != printed.stdout {
		t.Errorf("--to -: exit code %d, %q", r.code, r.stdout)
	}
	generateTo(t, "roce-lag", "-", "--check").expect(t, exitUsage, "--check compares with a file")
	cdigen(t, "watch", "--no-hook", "--host-root", host(t, "roce-lag"), "--to", "-").
		expect(t, exitUsage, "watch keeps a file right")
	cdigen(t, "remove", "--from", "-").expect(t, exitUsage, "remove needs a file")
	for _, verb := range []string{"generate", "watch"} {
		r := cdigen(t, verb, "--no-hook", "--host-root", host(t, "roce-lag"), "--to", "/dev/null")
		r.expect(t, exitUsage, `--to "/dev/null" is no directory, and a file ends in .json or .yaml`)
	}
	holds(t, ".")
	for _, verb := range [][]string{{"generate", "--no-hook"}, {"remove"}, {"list"}} {
		r := cdigen(t, append(verb, "--kind", "rdma.dev/claim")...)
		r.expect(t, exitUsage, `--kind "rdma.dev/claim": that kind is dra-driver's, whose claims it names`)
	}
}
