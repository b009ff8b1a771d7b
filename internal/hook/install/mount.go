package install

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/mountinfo"
)

// checkExec rejects a directory on a mount with noexec: a runtime could not run the hook, and every container with it
// would fail to start.
func checkExec(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("stat file system of %q: %w", dir, err)
	}
	if st.Flags&unix.ST_NOEXEC == 0 {
		return nil
	}
	return fmt.Errorf("directory %q is on %s, which is mounted noexec, so no program in it can run: "+
		"choose a directory elsewhere, such as /opt/rdma-dev/bin (/run is noexec on Debian, /var on Container-Optimized OS, "+
		"where /home/kubernetes/bin is not)", dir, mountOf(dir))
}

// mountOf names the mount of a directory for an error message.
func mountOf(dir string) string {
	var stx unix.Statx_t
	_ = unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &stx) // Linux before 5.8 gives 0, which no mount has
	// It must be the thread's own file: Statx has answered for this thread.
	mounts, _ := os.ReadFile("/proc/thread-self/mountinfo")
	if point := findMount(string(mounts), stx.Mnt_id); point != "" {
		return "the mount " + strconv.Quote(point)
	}
	return "a mount"
}

// findMount returns the mount point of a mount ID in a mountinfo file, "" if there is none.
func findMount(text string, id uint64) string {
	for m := range mountinfo.Parse(text) {
		if m.ID == strconv.FormatUint(id, 10) {
			return m.Point
		}
	}
	return ""
}
