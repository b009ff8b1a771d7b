package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/kmod"
)

// chooseModules puts the wanted modules into the root file system, not compressed, and
// the early ones into a directory for the initramfs.
func (w *work) chooseModules(ctx context.Context) error {
	version := w.kernel.version
	from, to := w.kit.path("lib/modules/"+version), w.root.path("lib/modules/"+version)
	if _, err := w.kit.run(ctx, "depmod", version); err != nil {
		return err
	}
	x, err := kmod.Read(os.DirFS(from))
	if err != nil {
		return err
	}
	files, err := x.Files(append(slices.Concat(earlyModuleNames, kernelModules), "siw", "rdma_rxm", "netdevsim")...)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := unpackModule(ctx, filepath.Join(from, file), filepath.Join(to, file)); err != nil {
			return err
		}
	}
	for _, name := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		if _, err := output(ctx, "cp", filepath.Join(from, name), to); err != nil {
			return err
		}
	}
	if _, err := w.root.run(ctx, "depmod", version); err != nil {
		return err
	}
	w.Step("      %d modules of kernel %s", len(files), version)
	return w.copyEarly(ctx, to)
}

// unpackModule copies a module, unpacking it on the way.
func unpackModule(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if !strings.HasSuffix(from, ".xz") {
		_, err := output(ctx, "cp", from, to)
		return err
	}
	data, err := output(ctx, "xz", "--decompress", "--stdout", from)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(to, ".xz"), []byte(data), 0o644)
}

// copyEarly numbers the early modules in the order in which they are to be loaded.
func (w *work) copyEarly(ctx context.Context, modules string) error {
	x, err := kmod.Read(os.DirFS(modules))
	if err != nil {
		return err
	}
	files, err := x.Files(earlyModuleNames...)
	if err != nil {
		return err
	}
	dir := filepath.Join(w.out, earlyModules)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i, file := range files {
		name := fmt.Sprintf("%02d-%s", i, filepath.Base(file))
		if err := unpackModule(ctx, filepath.Join(modules, file), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
