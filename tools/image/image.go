package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// binDir is where the binaries go. The driver looks for the hook beside itself.
const binDir = "usr/bin"

// user is whom programs run as unless a pod says otherwise. The driver itself needs root's
// directories, and its chart says so; nothing else of the image does.
const user = "65532:65532"

// accounts give root and user names, for programs that look them up.
var accounts = map[string]string{
	"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
	"etc/group":  "root:x:0:\nnonroot:x:65532:\n",
}

// spec is what an image is made from.
type spec struct {
	ref      name.Tag
	platform v1.Platform
	created  time.Time
	binaries []binary
	// tree are more files, "" for none. description and licenses are for the labels.
	tree                  string
	description, licenses string
}

// image is one layer and a configuration.
func (s spec) image() (v1.Image, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	archive, err := archive(files, s.created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive)), nil
	}, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: s.created}, CreatedBy: "tools/image"},
	})
	if err != nil {
		return nil, err
	}
	return s.configure(img)
}

// configure sets what a container of the image runs, and what the image is.
func (s spec) configure(img v1.Image) (v1.Image, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = s.platform.OS, s.platform.Architecture, s.platform.Variant
	config.Created = v1.Time{Time: s.created}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + path.Join(binDir, s.binaries[0].name)},
		User:       user,
		Env:        []string{"PATH=/" + binDir},
		WorkingDir: "/",
		Labels:     s.labels(),
	}
	return mutate.ConfigFile(img, config)
}

// labels are the OCI annotations of https://specs.opencontainers.org/image-spec/annotations.
func (s spec) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       path.Base(s.ref.RepositoryStr()),
		prefix + "description": s.description,
		prefix + "source":      "https://github.com/rdma-dev/dra-driver-rdma",
		prefix + "licenses":    s.licenses,
		prefix + "version":     s.ref.TagStr(),
		prefix + "created":     s.created.Format(time.RFC3339),
	}
	if revision := s.binaries[0].revision; revision != "" {
		labels[prefix+"revision"] = revision
	}
	return labels
}

// file is one file of the layer, a symbolic link if it has a link's target.
type file struct {
	path    string
	mode    int64
	content []byte
	link    string
}

// files lists the files of the layer by path.
func (s spec) files() ([]file, error) {
	var files []file
	for p, content := range accounts {
		files = append(files, file{path: p, mode: 0o644, content: []byte(content)})
	}
	for _, b := range s.binaries {
		files = append(files, file{path: path.Join(binDir, b.name), mode: 0o755, content: b.content})
	}
	tree, err := s.treeFiles()
	if err != nil {
		return nil, err
	}
	files = append(files, tree...)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	for i := range files[1:] {
		if files[i].path == files[i+1].path {
			return nil, fmt.Errorf("two files would be /%s", files[i].path)
		}
	}
	return files, nil
}

// treeFiles lists the files of the tree. Of their modes, only the right to execute counts.
func (s spec) treeFiles() ([]file, error) {
	if s.tree == "" {
		return nil, nil
	}
	var files []file
	err := filepath.WalkDir(s.tree, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(s.tree, name)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(relative), mode: 0o644}
		switch entry.Type() {
		case fs.ModeSymlink:
			f.mode = 0o777
			f.link, err = os.Readlink(name)
		case 0:
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil && info.Mode()&0o111 != 0 {
				f.mode = 0o755
			}
			if err == nil {
				f.content, err = os.ReadFile(name)
			}
		default:
			err = fmt.Errorf("%q is neither a file nor a link", name)
		}
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read --tree: %w", err)
	}
	return files, nil
}

// archive makes the layer: every directory before what is in it, root's, and of
// one date.
func archive(files []file, date time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range parents(f.path) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date}); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: date}
		if f.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// parents lists the directories above a relative path, from the top.
func parents(p string) []string {
	var dirs []string
	for i, r := range p {
		if r == '/' {
			dirs = append(dirs, p[:i])
		}
	}
	return dirs
}
