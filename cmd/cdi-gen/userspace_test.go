package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"
)

// unpack makes a directory of an archive of internal/gen/userspace, for this machine.
func unpack(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "userspace", "testdata", "trees",
		name+"-"+runtime.GOARCH+".tar"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no libraries of this architecture: %v", err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); err == nil; {
		var h *tar.Header
		if h, err = r.Next(); err != nil {
			break
		}
		file := filepath.Join(dir, h.Name)
		err = os.MkdirAll(filepath.Dir(file), 0o755)
		if h.Typeflag == tar.TypeSymlink {
			err = errors.Join(err, os.Symlink(h.Linkname, file))
			continue
		}
		var content []byte
		content, err = io.ReadAll(r)
		put(t, file, string(content), 0o644)
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return dir
}

// libraryHost is a host root with the HCAs of a machine and RDMA libraries.
func libraryHost(t *testing.T, machine string) string {
	t.Helper()
	root := unpack(t, "host")
	must.NoError(t, os.Symlink(filepath.Join(host(t, machine), "sys"), filepath.Join(root, "sys")))
	return root
}

// TestUserspaceHost: generate mounts what userspace lists, read-only, at the version
// that every runtime reads, and says what images need.
func TestUserspaceHost(t *testing.T) {
	root := libraryHost(t, "roce-lag")
	r := cdigen(t, "generate", "--host-root", root, "--no-hook", "--output", "json", "--userspace", "host", "--target",
		"podman-4.1")
	r.expect(t, exitOK, "warning: containers need glibc 2.34 or newer")
	var mounts []string
	for _, m := range loads(t, r.stdout, "json").ContainerEdits.Mounts {
		test.True(t, slices.Contains(m.Options, "ro"), test.Sprintf("%s is mounted %q", m.ContainerPath, m.Options))
		mounts = append(mounts, m.HostPath+" "+m.ContainerPath)
	}
	var listed []string
	table := cdigen(t, "userspace", "--host-root", root)
	table.expect(t, exitOK, "")
	for line := range strings.Lines(table.stdout) {
		if strings.HasPrefix(line, "/") {
			listed = append(listed, strings.Join(strings.Fields(line), " "))
		}
	}
	if !slices.Equal(mounts, listed) || len(mounts) == 0 {
		t.Errorf("mounted %q, listed %q", mounts, listed)
	}
	test.StrHasSuffix(t, "\nproviders efa, mlx5, rxe of private ABI 34; images need glibc 2.34 or newer\n", table.stdout,
		test.Sprint("the table does not end"))
}

// TestUserspaceImage: an image that goes with the libraries, one that does not, and
// what is no image.
func TestUserspaceImage(t *testing.T) {
	root, file := libraryHost(t, "roce-lag"), filepath.Join(t.TempDir(), "image.tar")
	put(t, file, "", 0o644)
	check := func(image string, args ...string) result {
		return cdigen(t, append([]string{"userspace", "--host-root", root, "--image", image}, args...)...)
	}
	check(unpack(t, "image")).expect(t, exitOK, "")
	r := check(unpack(t, "old-image"))
	r.expect(t, exitMisfit, "does not fit the host's libraries: problems: 1")
	test.StrContains(t, r.stdout, "\nproblem: the image's glibc 2.28 is older than 2.34",
		test.Sprint("the table has no problem"))
	check(t.TempDir(), "-o", "json").expect(t, exitMisfit, "problems: 1")
	check(file).expect(t, exitUsage, "want the directory of an unpacked image")
	check(filepath.Join(root, "absent")).expect(t, exitUsage, "--image: stat "+root+"/absent: no such file or directory")
}

// TestUserspaceFormats: what programs read. JSON and YAML say the same.
func TestUserspaceFormats(t *testing.T) {
	args := []string{"userspace", "--host-root", libraryHost(t, "roce-lag"), "--image", unpack(t, "old-image"), "--mad",
		"-o"}
	type report struct {
		ABI      string
		Mounts   []struct{ HostPath, ContainerPath string }
		Problems []struct{ Library, Text string }
	}
	var fromJSON, fromYAML report
	if err := errors.Join(json.Unmarshal([]byte(cdigen(t, append(args, "json")...).stdout), &fromJSON),
		yaml.Unmarshal([]byte(cdigen(t, append(args, "yaml")...).stdout), &fromYAML)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fromJSON.Mounts, fromYAML.Mounts) || fromJSON.ABI != "34" || len(fromJSON.Problems) != 1 ||
		len(fromYAML.Problems) != 1 {
		t.Errorf("JSON %+v\nYAML %+v", fromJSON, fromYAML)
	}
	if !slices.ContainsFunc(fromJSON.Mounts, func(m struct{ HostPath, ContainerPath string }) bool {
		return strings.HasSuffix(m.HostPath, "/libibumad.so.3")
	}) {
		t.Errorf("--mad mounts no libibumad: %+v", fromJSON.Mounts)
	}
	cdigen(t, append(args, "xml")...).expect(t, exitUsage, `--output "xml": want table, json or yaml`)
}

// TestUserspaceFaults: what is missing on the host is named, with the package that has
// it, and no spec is written.
func TestUserspaceFaults(t *testing.T) {
	root := libraryHost(t, "roce-lag")
	provider, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libibverbs/libmlx5-rdmav34.so"))
	if err != nil || len(provider) != 1 {
		t.Fatalf("provider %v, error %v", provider, err)
	}
	must.NoError(t, os.Remove(provider[0]))
	dir := t.TempDir()
	for _, args := range [][]string{{"generate", "--no-hook", "--userspace", "host", "--to", dir}, {"userspace"}} {
		cdigen(t, append(args, "--host-root", root)...).expect(t, exitIO, "no provider for HCAs of driver mlx5_core: ")
	}
	holds(t, dir)
}

// TestUserspaceImageFIFO: an image that has a FIFO in the place of a file is not waited for.
func TestUserspaceImageFIFO(t *testing.T) {
	image := unpack(t, "image")
	if err := errors.Join(os.MkdirAll(filepath.Join(image, "etc"), 0o755),
		syscall.Mkfifo(filepath.Join(image, "etc/ld.so.cache"), 0o644)); err != nil {
		t.Fatal(err)
	}
	r := cdigen(t, "userspace", "--host-root", libraryHost(t, "roce-lag"), "--image", image)
	r.expect(t, exitMisfit, "problems: 1")
	test.StrContains(t, r.stdout, "problem: read the names of libraries: open /etc/ld.so.cache: not a regular file",
		test.Sprint("the table has no problem"))
}
