package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

const tag = "example.com/rdma/driver:v1.2.3"

// program builds a small Go program and returns its path.
func program(t *testing.T, name string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	must.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println(\""+name+"\") }\n"), 0o644))
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, source)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS=linux"), env...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, msg)
	}
	return out
}

// buildImage runs the tool and returns the path of its archive.
func buildImage(t *testing.T, env map[string]string, args ...string) (string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	args = append([]string{"--tag", tag, "--output", out, "--platform", "linux/amd64"}, args...)
	err := run(args, func(key string) string { return env[key] }, io.Discard, io.Discard)
	return out, err
}

// entry is what the layer says of one file.
type entry struct {
	Name string
	Mode int64
	Size int64
	UID  int
	Time int64
}

func layerEntries(t *testing.T, img v1.Image) []entry {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %d, %v; want one", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	must.NoError(t, err)
	defer r.Close()
	var entries []entry
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		must.NoError(t, err)
		entries = append(entries, entry{h.Name, h.Mode, h.Size, h.Uid, h.ModTime.Unix()})
	}
}

func TestImage(t *testing.T) {
	driver, hook := program(t, "dra-driver"), program(t, "rdma-hook")
	out, err := buildImage(t, map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}, "--binary", driver, "--binary", hook)
	must.NoError(t, err)
	ref, err := name.NewTag(tag)
	must.NoError(t, err)
	img, err := tarball.ImageFromPath(out, &ref)
	must.NoError(t, err)
	size := func(path string) int64 {
		info, err := os.Stat(path)
		must.NoError(t, err)
		return info.Size()
	}
	const date = 1700000000
	want := []entry{
		{"etc/", 0o755, 0, 0, date},
		{"etc/group", 0o644, int64(len(accounts["etc/group"])), 0, date},
		{"etc/passwd", 0o644, int64(len(accounts["etc/passwd"])), 0, date},
		{"usr/", 0o755, 0, 0, date},
		{"usr/bin/", 0o755, 0, 0, date},
		{"usr/bin/dra-driver", 0o755, size(driver), 0, date},
		{"usr/bin/rdma-hook", 0o755, size(hook), 0, date},
	}
	test.Eq(t, want, layerEntries(t, img), test.Sprint("layer"))
	config, err := img.ConfigFile()
	must.NoError(t, err)
	test.Eq(t, []string{"/usr/bin/dra-driver"}, config.Config.Entrypoint, test.Sprint("entrypoint"))
	test.Eq(t, "linux/amd64", config.OS+"/"+config.Architecture, test.Sprint("platform"))
	test.Eq(t, "v1.2.3", config.Config.Labels["org.opencontainers.image.version"], test.Sprint("label version"))
	test.Eq(t, date, config.Created.Unix(), test.Sprintf("created %v", config.Created))
}

// The layer must be a whole tar file, as some readers insist on the end blocks.
func TestLayerIsComplete(t *testing.T) {
	layer, err := archive([]file{{path: "a/b", mode: 0o644, content: []byte("x")}}, time.Unix(0, 0))
	must.NoError(t, err)
	if !bytes.HasSuffix(layer, make([]byte, 1024)) || len(layer)%512 != 0 {
		t.Errorf("a layer of %d bytes does not end with two blocks of zeros", len(layer))
	}
}

// Two builds of the same binaries give the same bytes, also from copies with
// another date and mode.
func TestReproducible(t *testing.T) {
	driver := program(t, "dra-driver")
	content, err := os.ReadFile(driver)
	must.NoError(t, err)
	again := filepath.Join(t.TempDir(), "dra-driver")
	must.NoError(t, os.WriteFile(again, content, 0o700))
	out, err := buildImage(t, nil, "--binary", driver)
	must.NoError(t, err)
	outAgain, err := buildImage(t, nil, "--binary", again)
	must.NoError(t, err)
	equalFiles(t, out, outAgain)
}

func equalFiles(t *testing.T, a, b string) {
	t.Helper()
	first, err := os.ReadFile(a)
	must.NoError(t, err)
	second, err := os.ReadFile(b)
	must.NoError(t, err)
	test.True(t, bytes.Equal(first, second), test.Sprintf("%s: two builds differ", filepath.Base(a)))
}

func TestRefused(t *testing.T) {
	driver := program(t, "dra-driver")
	script := filepath.Join(t.TempDir(), "script")
	must.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for _, tc := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"no binary", nil, nil, `"binary" not set`},
		{"missing binary", nil, []string{"--binary", "/nonexistent"}, "/nonexistent"},
		{"script", nil, []string{"--binary", script}, "no ELF program"},
		{"wrong architecture", nil, []string{"--binary", program(t, "dra-driver", "GOARCH=arm64")}, "EM_AARCH64"},
		{"dynamic", nil, []string{"--binary", program(t, "dra-driver", "GOFLAGS=-buildmode=pie")}, "dynamically linked"},
		{"unknown platform", nil, []string{"--binary", driver, "--output", "{arch}.tar", "--platform", "windows/amd64"}, "windows/amd64 is not supported"},
		{"two platforms in one archive", nil, []string{"--binary", driver, "--platform", "linux/arm64"}, "{arch}"},
		{"no bill of materials", nil, []string{"--binary", driver, "--sbom", script}, "no CycloneDX document"},
		{"twice", nil, []string{"--binary", driver, "--binary", driver}, "two files would be /usr/bin/dra-driver"},
		{"bad tag", nil, []string{"--binary", driver, "--tag", "Not A Tag"}, "--tag"},
		{"bad date", map[string]string{"SOURCE_DATE_EPOCH": "now"}, []string{"--binary", driver}, "SOURCE_DATE_EPOCH"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := buildImage(t, tc.env, tc.args...)
			test.ErrorContains(t, err, tc.want, test.Sprint("does not say"))
			if _, err := os.Stat(out); err == nil {
				t.Error("an archive was written")
			}
		})
	}
}

// TestTree: the image has the files of a tree, with its links and with modes that do not depend on the umask. A file
// that is both a binary and in the tree is an error.
func TestTree(t *testing.T) {
	plugin, tree := program(t, "plugin"), t.TempDir()
	fixture.WriteFiles(t, tree, map[string]string{"lib/tool": "", "etc/tool.conf": "", "lib/alias": "-> /lib/tool"})
	must.NoError(t, os.Chmod(filepath.Join(tree, "lib/tool"), 0o700))
	args := []string{"--binary", plugin, "--tree", tree, "--description", "tools", "--licenses", "MIT"}
	out, err := buildImage(t, nil, args...)
	must.NoError(t, err)
	img, err := tarball.ImageFromPath(out, nil)
	must.NoError(t, err)
	modes := map[string]int64{}
	for _, e := range layerEntries(t, img) {
		modes[e.Name] = e.Mode
	}
	for name, want := range map[string]int64{
		"lib/": 0o755, "lib/tool": 0o755, "etc/tool.conf": 0o644, "lib/alias": 0o777, "usr/bin/plugin": 0o755,
	} {
		test.Eq(t, want, modes[name], test.Sprintf("%s has the mode", name))
	}
	config, err := img.ConfigFile()
	must.NoError(t, err)
	const prefix = "org.opencontainers.image."
	for name, want := range map[string]string{"description": "tools", "licenses": "MIT", "title": "driver"} {
		test.Eq(t, want, config.Config.Labels[prefix+name], test.Sprintf("the label %s", name))
	}
	fixture.WriteFiles(t, tree, map[string]string{"usr/bin/plugin": ""})
	_, err = buildImage(t, nil, args...)
	test.ErrorContains(t, err, "two files would be /usr/bin/plugin", test.Sprint("a file twice"))
	_, err = buildImage(t, nil, "--binary", plugin, "--tree", tree+"/none")
	test.ErrorContains(t, err, "read --tree", test.Sprint("no tree"))
}
