// Package images makes the two local container images of the embedded cluster, as
// one docker-archive that "ctr images import" and "podman load" read. No registry
// and no container engine is involved.
package images

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The images' references. Pods that use them say imagePullPolicy: Never.
const (
	Pause   = "localhost/pause:testbed"
	Busybox = "localhost/busybox:testbed"
)

// WriteArchive writes both images to path: pause from its program, busybox from
// the host's statically linked busybox.
func WriteArchive(path, pauseProgram string) error {
	pause, err := pauseImage(pauseProgram)
	if err != nil {
		return fmt.Errorf("make image %q: %w", Pause, err)
	}
	busybox, err := busyboxImage()
	if err != nil {
		return fmt.Errorf("make image %q: %w", Busybox, err)
	}
	refs := map[name.Reference]v1.Image{}
	for ref, img := range map[string]v1.Image{Pause: pause, Busybox: busybox} {
		tag, err := name.NewTag(ref)
		if err != nil {
			return fmt.Errorf("parse image reference: %w", err)
		}
		refs[tag] = img
	}
	if err := tarball.MultiRefWriteToFile(path, refs); err != nil {
		return fmt.Errorf("write image archive %q: %w", path, err)
	}
	return nil
}

func pauseImage(program string) (v1.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var l layer
	l.file("pause", data, 0o755)
	return l.image("/pause")
}

func busyboxImage() (v1.Image, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("find busybox: %w (install the package busybox-static)", err)
	}
	if err := checkStatic(program); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets of %q: %w", program, err)
	}
	var l layer
	for _, dir := range []string{"bin", "dev", "etc", "proc", "root", "sys", "var"} {
		l.dir(dir, 0o755)
	}
	l.dir("tmp", 0o1777)
	l.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"), 0o644)
	l.file("etc/group", []byte("root:x:0:\nuser:x:1000:\n"), 0o644)
	l.file("bin/busybox", data, 0o755)
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			l.link("bin/"+applet, "/bin/busybox")
		}
	}
	return l.image("/bin/sh")
}

// checkStatic refuses a program that needs a dynamic loader, which the image has not.
func checkStatic(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("read program %q: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%q is not statically linked (install the package busybox-static)", program)
		}
	}
	return nil
}

// layer collects one tar layer. It keeps its first error for image.
type layer struct {
	buf bytes.Buffer
	tw  *tar.Writer
	err error
}

func (l *layer) add(h *tar.Header, data []byte) {
	if l.tw == nil {
		l.tw = tar.NewWriter(&l.buf)
	}
	if l.err == nil {
		l.err = l.tw.WriteHeader(h)
	}
	if l.err == nil {
		_, l.err = l.tw.Write(data)
	}
}

func (l *layer) dir(path string, mode int64) {
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil)
}

func (l *layer) file(path string, data []byte, mode int64) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(data))}, data)
}

func (l *layer) link(path, target string) {
	l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, nil)
}

// image closes the layer and wraps it.
func (l *layer) image(entrypoint string) (v1.Image, error) {
	if l.err == nil {
		l.err = l.tw.Close()
	}
	if l.err != nil {
		return nil, l.err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l.buf.Bytes())), nil }
	tarLayer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.DockerLayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, tarLayer)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = runtime.GOARCH, "linux"
	file.Config.Entrypoint = []string{entrypoint}
	file.Config.Env = []string{"PATH=/bin"}
	return mutate.ConfigFile(img, file)
}
