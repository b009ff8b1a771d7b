package configure_test

import (
	"fmt"
	"io/fs"
	"syscall"
)

// owner returns the mode and the owner of a file.
func owner(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d:%d", info.Mode(), stat.Uid, stat.Gid)
}
