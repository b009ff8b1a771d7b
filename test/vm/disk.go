package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// makeDisk copies the image's root file system to path, if nothing is there. A raw file keeps what the guest has
// written when QEMU is killed: QEMU holds none of it in its own memory, as it does of a qcow2 file. The image has no
// journal, as nobody needs it after its machine; the copy gets one for power cuts.
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
