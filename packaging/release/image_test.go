package release

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestImages: the layout of each image has an index over the platforms, and the bill of materials refers to the image.
// The archive for docker load has the same image, whose user is not root.
func TestImages(t *testing.T) {
	dir, _ := packages(t)
	for name, program := range map[string]string{"dra-driver-rdma": "dra-driver", "rdma-perftest": "kubectl-rdma"} {
		unpacked, top := t.TempDir(), filepath.Join(dir, name+"_1.2.3_linux_"+runtime.GOARCH)
		tool(t, "tar", "-C", unpacked, "-xf", filepath.Join(dir, name+"_1.2.3.oci.tar"))
		all, err := layout.ImageIndexFromPath(unpacked)
		must.NoError(t, err)
		entries, err := all.IndexManifest()
		must.NoError(t, err)
		must.SliceLen(t, 2, entries.Manifests)
		test.Eq(t, version, entries.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
		index, err := all.ImageIndex(entries.Manifests[0].Digest)
		must.NoError(t, err)
		must.NoError(t, validate.Index(index))
		platforms, err := index.IndexManifest()
		must.NoError(t, err)
		must.SliceLen(t, 1, platforms.Manifests)
		test.Eq(t, "linux/"+runtime.GOARCH, platforms.Manifests[0].Platform.String())

		image, err := tarball.ImageFromPath(top+".image.tar", nil)
		must.NoError(t, err)
		must.NoError(t, validate.Image(image))
		config, err := image.ConfigFile()
		must.NoError(t, err)
		test.Eq(t, "65532:65532", config.Config.User)
		test.Eq(t, []string{"/usr/bin/" + program}, config.Config.Entrypoint)
		test.Eq(t, version, config.Config.Labels["org.opencontainers.image.version"])
		test.True(t, config.Created.Equal(date), test.Sprintf("created %v", config.Created))
		pushed, err := index.Image(platforms.Manifests[0].Digest)
		must.NoError(t, err)
		pushedID, err := pushed.ConfigName()
		must.NoError(t, err)
		archivedID, err := image.ConfigName()
		must.NoError(t, err)
		test.Eq(t, archivedID, pushedID, test.Sprintf("%s: the image to be pushed, and the archive", name))

		referrer, err := all.Image(entries.Manifests[1].Digest)
		must.NoError(t, err)
		manifest, err := referrer.Manifest()
		must.NoError(t, err)
		test.Eq(t, platforms.Manifests[0].Digest, manifest.Subject.Digest, test.Sprintf("%s: who is described", name))
		test.Eq(t, "application/vnd.cyclonedx+json", string(manifest.Config.MediaType)) // lists of referrers show it
		layers, err := referrer.Layers()
		must.NoError(t, err)
		content, err := layers[0].Compressed()
		must.NoError(t, err)
		got, err := io.ReadAll(content)
		must.NoError(t, err)
		want, err := os.ReadFile(top + ".cdx.json")
		must.NoError(t, err)
		test.Eq(t, string(want), string(got))
	}
}

// TestImageFiles: the driver's image has the programs and two files of accounts, all of them root's.
func TestImageFiles(t *testing.T) {
	dir, _ := packages(t)
	root := imageLayer(t, filepath.Join(dir, "dra-driver-rdma_1.2.3_linux_"+runtime.GOARCH+".image.tar"))
	const want = `drwxr-xr-x 0/0 etc
-rw-r--r-- 0/0 etc/group
-rw-r--r-- 0/0 etc/passwd
drwxr-xr-x 0/0 usr
drwxr-xr-x 0/0 usr/bin
-rwxr-xr-x 0/0 usr/bin/dra-driver
-rwxr-xr-x 0/0 usr/bin/rdma-hook
`
	got := tool(t, "sh", "-c", "cd "+root+" && find * -printf '%M %U/%G %p\\n' | sort -k3")
	test.Eq(t, want, got)
}

// TestImageAgain: an archive of the same image is left as it is, for those who read it.
func TestImageAgain(t *testing.T) {
	program, archive := staticProgram(t, "main"), filepath.Join(t.TempDir(), "a.tar")
	made := func() os.FileInfo {
		tool(t, "../image.sh", "a:v1", archive, program)
		info, err := os.Stat(archive)
		must.NoError(t, err)
		return info
	}
	test.True(t, os.SameFile(made(), made()), test.Sprint("the same file"))
}

// staticProgram builds a program that does nothing.
func staticProgram(t *testing.T, name string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n", 0o644)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), filepath.Join(dir, "main.go"))
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64"), env...)
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	return filepath.Join(dir, name)
}

// TestImageRefused: what is no name, and programs that could not start in the image, give no image.
func TestImageRefused(t *testing.T) {
	amd, arm := staticProgram(t, "amd"), staticProgram(t, "arm", "GOARCH=arm64")
	for want, args := range map[string][]string{
		"is not of the form NAME:TAG":         {"Not A Tag", amd},
		"is built for arm64":                  {"a:v1", amd, arm},
		"build it with CGO_ENABLED=0":         {"a:v1", staticProgram(t, "cgo", "CGO_ENABLED=1")},
		"not a Go executable":                 {"a:v1", "/bin/sh"},
		"want NAME:TAG ARCHIVE PROGRAM":       {"a:v1"},
		"nonexistent: no such file or direct": {"a:v1", "/nonexistent"},
	} {
		out := t.TempDir()
		says, err := exec.Command("../image.sh", append([]string{args[0], filepath.Join(out, "a.tar")}, args[1:]...)...).
			CombinedOutput()
		test.Error(t, err)
		test.StrContains(t, string(says), want)
		test.SliceEmpty(t, names(t, out), test.Sprintf("%q left files", args))
	}
}
