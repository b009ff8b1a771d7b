package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

func TestWriteArchive(t *testing.T) {
	dir := t.TempDir()
	program, path := filepath.Join(dir, "pause"), filepath.Join(dir, "images.tar")
	must.NoError(t, os.WriteFile(program, []byte("a program"), 0o755))
	if err := WriteArchive(path, program); err != nil {
		if strings.Contains(err.Error(), "busybox-static") {
			needs.Missing(t, err)
		}
		t.Fatal(err)
	}
	for ref, entrypoint := range map[string]string{Pause: "/pause", Busybox: "/bin/sh"} {
		tag, err := name.NewTag(ref)
		must.NoError(t, err)
		img, err := tarball.ImageFromPath(path, &tag)
		must.NoError(t, err, must.Sprint(ref))
		config, err := img.ConfigFile()
		if err != nil || config.Config.Entrypoint[0] != entrypoint || config.OS != "linux" {
			t.Errorf("%s: config %+v, %v", ref, config, err)
		}
	}
}

func TestCheckStatic(t *testing.T) {
	test.ErrorContains(t, checkStatic("/bin/sh"), "not statically linked", test.Sprint("/bin/sh"))
}
