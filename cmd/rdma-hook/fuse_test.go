package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// deadFUSE mounts a file system whose server answers nothing but the kernel's first message. Whoever asks it for
// anything waits until the test ends.
type deadFUSE struct {
	// end ends the connection, and with it what waits: not even a signal does.
	end func()

	mu    sync.Mutex
	asked []string // what the kernel asked it for
}

// fuseInit is the kernel's first message (FUSE_INIT of linux/fuse.h).
const fuseInit = 26

func mountDeadFUSE(t *testing.T, at string) *deadFUSE {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		needs.Missing(t, fmt.Errorf("a mount of FUSE needs the kernel's module fuse: %w", err))
	}
	must(t, unix.Mount("dead", at, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	d := &deadFUSE{}
	var served sync.WaitGroup
	served.Go(func() { d.serve(fd) })
	d.end = sync.OnceFunc(func() {
		test.NoError(t, unix.Unmount(at, unix.MNT_DETACH|unix.MNT_FORCE), test.Sprintf("unmount %s", at))
		served.Wait()
		unix.Close(fd)
	})
	t.Cleanup(d.end)
	return d
}

// serve answers the first message until the connection ends.
func (d *deadFUSE) serve(fd int) {
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		if op := binary.NativeEndian.Uint32(buf[4:]); op != fuseInit {
			d.mu.Lock()
			d.asked = append(d.asked, fmt.Sprintf("operation %d", op))
			d.mu.Unlock()
			continue
		}
		// struct fuse_out_header, and struct fuse_init_out of 64 bytes.
		answer := make([]byte, 16+64)
		binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
		copy(answer[8:16], buf[8:16])
		binary.NativeEndian.PutUint32(answer[16:], 7)
		binary.NativeEndian.PutUint32(answer[20:], 31)
		binary.NativeEndian.PutUint32(answer[36:], 1<<16)
		if _, err := unix.Write(fd, answer); err != nil {
			return
		}
	}
}

func (d *deadFUSE) operations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

// TestDeadFUSE: the hook asks a file system that does not answer for nothing, ends, and says that it did not check. The
// rest of the container is checked.
func TestDeadFUSE(t *testing.T) {
	needs.Root(t, "mounts")
	if !mounttest.Isolated(t) {
		return
	}
	path := build(t, ".")
	for at, want := range map[string]finding.Severity{
		"usr": finding.NotSeen, "etc": finding.NotSeen, "data": finding.OK, "": finding.NotSeen,
	} {
		t.Run("on /"+at, func(t *testing.T) {
			bundle, reports := t.TempDir(), t.TempDir()
			makeUsable(t, bundle)
			point := filepath.Join(bundle, "rootfs", at)
			must(t, os.MkdirAll(point, 0o755))
			dead := mountDeadFUSE(t, point)

			const patience = 2 * time.Minute // the hook has one
			hangs := time.AfterFunc(patience, dead.end)
			defer hangs.Stop()
			cmd := exec.Command(path, "--report", reports, "--hca", "mlx5_0:uverbs0:mlx5_core", "--on-unusable", "fail",
				"--timeout", "1m")
			cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"ociVersion":"1.0.2","id":"dead","status":"creating","pid":%d,"bundle":%q}`,
				os.Getpid(), bundle))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the hook: %v: %s", err, out)
			}
			if asked := dead.operations(); len(asked) > 0 {
				t.Errorf("the hook asked the file system for %v", asked)
			}
			var r record.Report
			text, err := os.ReadFile(filepath.Join(reports, "dead.json"))
			must(t, err, json.Unmarshal(text, &r))
			got := finding.Finding{}
			for _, c := range r.Checks {
				if c.ID == record.Provider.ID {
					got = c
				}
			}
			if got.Severity != want || want == finding.NotSeen && !strings.Contains(got.Message, "FUSE") {
				t.Errorf("the check of the provider is %v (%s), want %s", got, got.Severity, want)
			}
		})
	}
	t.Run("the server is dead", func(t *testing.T) {
		point := t.TempDir()
		dead := mountDeadFUSE(t, point)
		ls := exec.Command("ls", point)
		must(t, ls.Start())
		for end := time.Now().Add(time.Minute); len(dead.operations()) == 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		asked := dead.operations()
		dead.end()
		if err := ls.Wait(); err == nil || len(asked) == 0 {
			t.Errorf("it answers %v: %v", asked, err)
		}
	})
}
