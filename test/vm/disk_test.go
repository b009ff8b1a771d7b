package vm_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// A guest whose QEMU is killed has its disk again in its next boot, and neither /run nor the kernel of before.
func TestDisk(t *testing.T) {
	needs.Long(t, "the test bed alone, for reboot of TestTwoNodes")
	t.Parallel()
	v := vmtest.Open(t)
	const script = `cat /etc/kept /run/gone /proc/sys/kernel/random/boot_id 2>&1
cat /proc/sys/kernel/random/boot_id >/etc/kept; echo gone >/run/gone; sync; echo synced; exec sleep 1000`
	c := vm.Cmd{
		Argv: []string{"sh", "-c", script}, Disk: filepath.Join(t.TempDir(), "disk"),
		Links: map[string]string{"/etc/link": "target"},
	}
	var boots [2][3]string
	for i := range boots {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		var stderr bytes.Buffer
		c.Stdout, c.Stderr = in, &stderr
		go func() {
			_, err := v.Run(ctx, c)
			in.CloseWithError(err)
		}()
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan() && lines.Text() != "synced"; n++ {
			boots[i][n] = lines.Text()
		}
		must.Eq(t, "synced", lines.Text(), must.Sprintf("boot %d: %v\n%s", i, lines.Err(), &stderr))
		cancel()
		if _, err := io.Copy(io.Discard, out); err == nil { // waits for the end of QEMU
			t.Error("the killed machine has an exit status")
		}
	}
	const missing = "cat: /run/gone: No such file or directory"
	first := boots[0][2]
	if got := boots[1]; got[0] != first || got[1] != missing || got[2] == first {
		t.Errorf("after boot %s the next one finds %q", first, got)
	}
}
