package image

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ToolsImage is the name of the container image with the RDMA tools.
const ToolsImage = "localhost/rdma-tools:vm"

// libraryDirs are where a program finds what it names.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/pmix2/lib"}

// providerDirs hold what libibverbs loads by itself.
var providerDirs = []string{"/etc/libibverbs.d", "/usr/lib/x86_64-linux-gnu/libibverbs"}

// archive is a container image made of files of a Debian system.
type archive struct {
	// name is the image's, file that of the docker-archive.
	name, file string
	// programs come with the libraries that they name. trees are directories that programs read by themselves.
	programs, trees []string
	// skip matches paths of the trees that nobody reads.
	skip *regexp.Regexp
}

// makeArchive makes a container image of the programs, the libraries they need and a
// shell: as small as it can be, since every import is paid for in emulated time.
func (w *work) makeArchive(ctx context.Context, a archive) error {
	files, err := w.files(a)
	if err != nil {
		return err
	}
	applets, err := w.root.run(ctx, "busybox", "--list")
	if err != nil {
		return err
	}
	layer, err := w.layer(files, strings.Fields(applets))
	if err != nil {
		return err
	}
	img, err := oneLayer(layer)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(a.name)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(w.out, a.file), tag, img)
}

// files lists the programs and trees with the libraries they load.
func (w *work) files(a archive) ([]string, error) {
	files := slices.Clone(a.programs)
	for _, dir := range a.trees {
		err := filepath.WalkDir(w.root.path(dir), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, w.root.dir)
			if err == nil && !d.IsDir() && (a.skip == nil || !a.skip.MatchString(name)) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i := 0; i < len(files); i++ { // it grows
		needs, err := w.needs(files[i])
		if err != nil {
			return nil, err
		}
		for _, file := range needs {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

// needs lists the loader and the libraries that a program or library names; other files need nothing.
func (w *work) needs(file string) ([]string, error) {
	path, err := w.root.follow(file)
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if format := (*elf.FormatError)(nil); errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the program %q: %w", file, err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read the libraries of %q: %w", file, err)
	}
	var found []string
	for _, library := range libraries {
		path, err := w.findLibrary(library)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
		found = append(found, path)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, err
			}
			found = append(found, strings.TrimRight(string(loader), "\x00"))
		}
	}
	return found, nil
}

func (w *work) findLibrary(library string) (string, error) {
	for _, dir := range libraryDirs {
		path, err := w.root.follow(filepath.Join(dir, library))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return filepath.Join(dir, library), nil
		}
	}
	return "", fmt.Errorf("find the library %q: there is none", library)
}

// layer packs the files at their paths, links followed, and the applets.
func (w *work) layer(files, applets []string) ([]byte, error) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	dir := func(path string, mode int64) error {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode})
	}
	file := func(path string, data []byte, mode int64) error {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Size: int64(len(data)), Mode: mode}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err := tw.Write(data)
		return err
	}
	errs := []error{
		dir("etc", 0o755), dir("bin", 0o755), dir("tmp", 0o1777), dir("dev", 0o755), dir("proc", 0o755), dir("sys", 0o755),
		file("etc/passwd", []byte("root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"), 0o644),
		file("etc/group", []byte("root:x:0:\nuser:x:1000:\n"), 0o644),
	}
	for _, path := range files {
		from, err := w.root.follow(path)
		errs = append(errs, err)
		data, err := os.ReadFile(from)
		errs = append(errs, err, file(path, data, 0o755))
	}
	for _, applet := range applets {
		if applet != "busybox" {
			errs = append(errs, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "/bin/busybox", Mode: 0o777}))
		}
	}
	return buf.Bytes(), errors.Join(append(errs, tw.Close())...)
}

func oneLayer(layer []byte) (v1.Image, error) {
	// Not compressed: that would be undone in emulated time.
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer, types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = "amd64", "linux"
	config.Config.Cmd = []string{"/bin/sh"}
	config.Config.Env = []string{"PATH=/usr/bin:/bin"}
	return mutate.ConfigFile(img, config)
}
