package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteArchive(t *testing.T) {
	dir := t.TempDir()
	program, path := filepath.Join(dir, "pause"), filepath.Join(dir, "images.tar")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(path, program); err != nil {
		if strings.Contains(err.Error(), "busybox-static") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	for ref, entrypoint := range map[string]string{Pause: "/pause", Busybox: "/bin/sh"} {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(path, &tag)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Config.Entrypoint[0] != entrypoint || config.OS != "linux" {
			t.Errorf("%s: config %+v, %v", ref, config, err)
		}
	}
}

func TestCheckStatic(t *testing.T) {
	if err := checkStatic("/bin/sh"); err == nil || !strings.Contains(err.Error(), "not statically linked") {
		t.Errorf("/bin/sh: %v", err)
	}
}
