package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// makeDisk copies the image's root file system to path, if nothing is there. The file is raw, so all that the guest has
// written survives a kill of QEMU. Of a qcow2 file QEMU keeps parts in its own memory. The image has no journal. The
// copy gets one, because its machine may lose power.
func (v *VM) makeDisk(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	part := path + ".part" // an interrupted copy is not taken for a disk
	for _, argv := range [][]string{
		{"cp", "--sparse=always", v.image.Root(), part},
		{"tune2fs", "-O", "has_journal", "-J", "size=32", part},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("make disk %q: %s: %w: %s", path, argv[0], err, out)
		}
	}
	return os.Rename(part, path)
}
