package testbed

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// Image writes an archive of the test bed's busybox with one more program, under the name of an image that the test bed
// cannot have.
func (b *Bed) Image(t *testing.T, ref, program, script string) (archive string) {
	t.Helper()
	tag, err := name.NewTag(cluster.BusyboxImage)
	must.NoError(t, err)
	busybox, err := tarball.ImageFromPath(filepath.Join(b.options.StateDir, "images.tar"), &tag)
	must.NoError(t, err)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + program, Mode: 0o755, Size: int64(len(script))}
	err = w.WriteHeader(header)
	if err == nil {
		_, err = w.Write([]byte(script))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	must.NoError(t, err)
	image, err := mutate.AppendLayers(busybox, layer)
	must.NoError(t, err)
	archive = filepath.Join(t.TempDir(), "image.tar")
	if tag, err = name.NewTag(ref); err == nil {
		err = tarball.WriteToFile(archive, tag, image)
	}
	must.NoError(t, err)
	return archive
}
