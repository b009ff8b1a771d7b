package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
)

// sbomType is the media type of a CycloneDX document. It is also the artifact type that a registry shows when it lists
// the document among the referrers of an image.
const sbomType = types.MediaType("application/vnd.cyclonedx+json")

// built is the image of one platform.
type built struct {
	spec  spec
	image v1.Image
	sbom  []byte // nil for none
}

// writeIndex archives an OCI image layout: one index over all platforms under the name of
// the image, and beside it the bill of materials of each, which refers to its image.
func writeIndex(file string, images []built) (digest v1.Hash, err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return digest, err
	}
	defer os.RemoveAll(dir)
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.image, Descriptor: v1.Descriptor{Platform: &b.spec.platform}})
	}
	index = mutate.Annotations(index, images[0].spec.labels()).(v1.ImageIndex)
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return digest, err
	}
	ref := images[0].spec.ref
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          ref.Name(),
	})); err != nil {
		return digest, err
	}
	for _, b := range images {
		if b.sbom == nil {
			continue
		}
		referrer, err := b.referrer()
		if err != nil {
			return digest, err
		}
		if err := to.AppendImage(referrer); err != nil {
			return digest, err
		}
	}
	data, err := archiveDir(dir, images[0].spec)
	if err != nil {
		return digest, err
	}
	if _, err := atomicfile.Write(file, data, atomicfile.Options{Mode: 0o644}); err != nil {
		return digest, err
	}
	return index.Digest()
}

// referrer is the manifest of the bill of materials
// (https://github.com/opencontainers/image-spec/blob/main/manifest.md#guidelines-for-artifact-usage).
func (b built) referrer() (v1.Image, error) {
	subject, err := partial.Descriptor(b.image)
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(b.sbom, sbomType))
	if err != nil {
		return nil, err
	}
	return mutate.Subject(artifact, v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}).(v1.Image), nil
}

// archiveDir is a tar file of a directory: the same bytes for the same files.
func archiveDir(dir string, s spec) ([]byte, error) {
	var files []file
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		files = append(files, file{path: filepath.ToSlash(relative), mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("archive the image layout: %w", err)
	}
	return archive(files, s.created)
}

// readSBOM reads a CycloneDX document as it is.
func readSBOM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read bill of materials: %w", err)
	}
	if !bytes.Contains(data, []byte(`"bomFormat"`)) {
		return nil, fmt.Errorf("read bill of materials %q: no CycloneDX document in JSON", path)
	}
	return data, nil
}
