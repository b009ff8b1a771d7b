package release

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// released unpacks the programs that are released for this machine, and returns their paths.
func released(t *testing.T) map[string]string {
	t.Helper()
	dir, _ := packages(t)
	bin := t.TempDir()
	unpack(t, filepath.Join(dir, "cdi-gen_1.2.3_linux_"+runtime.GOARCH+".tar.gz"), bin)
	image := imageLayer(t, filepath.Join(dir, "dra-driver-rdma_1.2.3_linux_"+runtime.GOARCH+".image.tar"))
	return map[string]string{
		"cdi-gen":    filepath.Join(bin, "cdi-gen_1.2.3_linux_"+runtime.GOARCH, "bin/cdi-gen"),
		"rdma-hook":  filepath.Join(image, "usr/bin/rdma-hook"),
		"dra-driver": filepath.Join(image, "usr/bin/dra-driver"),
	}
}

// TestPruned: what is released has no templates, with which the linker keeps every method of every
// type (docs/dev/benchmarks.md).
func TestPruned(t *testing.T) {
	for program, path := range released(t) {
		data, err := os.ReadFile(path)
		must.NoError(t, err)
		test.False(t, bytes.Contains(data, []byte("text/template.(*Template).Execute")),
			test.Sprintf("%s has text/template: was it built with the tags of the Makefile?", program))
	}
}

// TestVersions: everything that is released says which version it is.
func TestVersions(t *testing.T) {
	dir, _ := packages(t)
	for program, path := range released(t) {
		out, err := exec.Command(path, "--version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), program+" "+version) {
			t.Errorf("%s --version: %v: %s", program, err, out)
		}
	}
	chart := t.TempDir()
	unpack(t, filepath.Join(dir, "dra-driver-rdma-1.2.3.tgz"), chart)
	for file, want := range map[string]string{
		filepath.Join(chart, "dra-driver-rdma/Chart.yaml"): "\nversion: 1.2.3\nappVersion: \"v1.2.3\"\n",
		filepath.Join(dir, "dra-driver-rdma.yaml"):         `image: "ghcr.io/rdma-dev/dra-driver-rdma:v1.2.3"`,
	} {
		data, err := os.ReadFile(file)
		must.NoError(t, err)
		test.StrContains(t, string(data), want, test.Sprintf("%s lacks", file))
	}
}

// TestSBOM: the bill of materials has the programs, with the checksums of what is in the
// image, and the modules that they are linked from with the versions of go.mod.
func TestSBOM(t *testing.T) {
	dir, source := packages(t)
	data, err := os.ReadFile(filepath.Join(dir, "dra-driver-rdma_1.2.3_linux_"+runtime.GOARCH+".cdx.json"))
	must.NoError(t, err)
	var bom struct {
		BOMFormat  string
		Components []struct {
			Name, Version, PURL string
			Hashes              []struct{ Content string }
		}
	}
	if err := json.Unmarshal(data, &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("format %s, %v", bom.BOMFormat, err)
	}
	required, err := os.ReadFile(filepath.Join(source, "go.mod"))
	must.NoError(t, err)
	image := imageLayer(t, filepath.Join(dir, "dra-driver-rdma_1.2.3_linux_"+runtime.GOARCH+".image.tar"))
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = true
		switch {
		case c.Name == "std":
		case c.Name == "dra-driver" || c.Name == "rdma-hook":
			sum := strings.Fields(tool(t, "sha256sum", filepath.Join(image, "usr/bin", c.Name)))[0]
			if len(c.Hashes) != 1 || c.Hashes[0].Content != sum || c.Version != version {
				t.Errorf("%+v, want checksum %s", c, sum)
			}
		case !strings.Contains(string(required), c.Name+" "+c.Version) || len(c.Hashes) != 1 || c.PURL == "":
			t.Errorf("go.mod does not have %+v", c)
		}
	}
	for _, want := range []string{"dra-driver", "rdma-hook", "std", "k8s.io/client-go", "golang.org/x/sys"} {
		test.True(t, found[want], test.Sprintf("%s is missing", want))
	}
	test.StrNotContains(t, string(data), filepath.Dir(source),
		test.Sprint("the document names a directory of this machine"))
}

// TestMeasuringImage: the image of kubectl rdma test has the plugin and perftest. Its bill of materials has the modules
// of the plugin, and each package of Debian with its checksum.
func TestMeasuringImage(t *testing.T) {
	dir, _ := packages(t)
	top := filepath.Join(dir, "rdma-perftest_1.2.3_linux_"+runtime.GOARCH)
	image := imageLayer(t, top+".image.tar")
	got := tool(t, filepath.Join(image, "usr/bin/kubectl-rdma"), "version")
	test.StrHasPrefix(t, "kubectl-rdma "+version, got, test.Sprint("the plugin"))
	for _, name := range []string{"usr/bin/ib_write_bw", "bin/busybox"} {
		if info, err := os.Stat(filepath.Join(image, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(image, "usr/bin/sh")); err != nil || to != "/bin/busybox" {
		t.Errorf("the shell is %q, %v", to, err)
	}
	data, err := os.ReadFile(top + ".cdx.json")
	must.NoError(t, err)
	for _, want := range []string{`"name": "k8s.io/client-go"`, `"name": "kubectl-rdma"`} {
		test.StrContains(t, string(data), want, test.Sprint("the bill of materials lacks"))
	}
	list, err := os.ReadFile("../perftest/packages.txt")
	must.NoError(t, err)
	pinned := 0
	for line := range strings.Lines(string(list)) {
		p := strings.Fields(line)
		if p[0] != runtime.GOARCH {
			continue
		}
		pinned++
		if !strings.Contains(string(data), p[3]) || !strings.Contains(string(data), "pkg:deb/debian/"+p[1]+"@") {
			t.Errorf("the bill of materials lacks %s", line)
		}
	}
	test.Eq(t, 14, pinned, test.Sprint("packages of Debian"))
}

// imageLayer unpacks the only layer of a docker-archive.
func imageLayer(t *testing.T, archive string) string {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	tool(t, "tar", "-C", dir, "-xf", archive)
	layers, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers %q, %v", layers, err)
	}
	unpack(t, layers[0], root)
	return root
}

// unpack extracts a compressed archive as it is, and checks the dates.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(gunzip(t, archive))); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must.NoError(t, err)
		test.True(t, h.ModTime.Equal(date), test.Sprintf("%s: %s is of %v", archive, h.Name, h.ModTime))
	}
	tool(t, "tar", "-C", dir, "-xzf", archive)
}
