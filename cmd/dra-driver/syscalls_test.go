package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// syscallLine finds the name of a call in what strace writes: "PID name(...".
var syscallLine = regexp.MustCompile(`(?m)^\d+ +(\w+)\(`)

// TestSyscallsOfPrepare counts what a Prepare asks of the kernel: nothing is
// synced, nothing executed, and three files get their names: record, device metadata
// and spec. Times
// differ between machines, counts do not.
func TestSyscallsOfPrepare(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		needs.Missing(t, err)
	}
	n := drivertest.NewNode(t, "hgx-h100")
	out := filepath.Join(drivertest.TempDir(t), "strace")
	calls := "trace=fsync,fdatasync,sync,syncfs,msync,sync_file_range,execve,execveat," +
		"rename,renameat,renameat2,flock,openat,socket"
	// With -D the driver is our child, and strace its grandchild.
	driver := drivertest.StartProgram(t, append([]string{strace, "-D", "-f", "-q", "-o", out, "-e", calls,
		drivertest.Binary(t)}, n.Args(t, "")...)...)
	n.WaitForPlugins(1)
	const claims = 20
	const atStart = 2       // the HCAs that the next driver will know (docs/adr/0013), and the sign (0023)
	for i := range claims { // the first pays for connections and directories
		n.AddClaim(drivertest.Claim(i, hcas[0]))
		mustPrepare(t, n, drivertest.Claim(i, hcas[0]))
		mustUnprepare(t, n, drivertest.Claim(i, hcas[0]))
	}
	driver.Terminate()
	count := countSyscalls(t, out)
	for _, name := range []string{"fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"} {
		test.Eq(t, 0, count[name], test.Sprintf("%d calls of %s", count[name], name))
	}
	test.Eq(t, 1, count["execve"]+count["execveat"], test.Sprint("programs executed"))
	if got := count["rename"] + count["renameat"] + count["renameat2"]; got != 3*claims+atStart {
		t.Errorf("%d files renamed for %d claims, want three each, and %d at the start", got, claims, atStart)
	}
	t.Logf("for each claim: %.1f openat, %.1f flock", float64(count["openat"])/claims, float64(count["flock"])/claims)
}

func countSyscalls(t *testing.T, file string) map[string]int {
	t.Helper()
	count := map[string]int{}
	drivertest.Eventually(t, func() error { // strace writes its last lines after the end
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		clear(count)
		for _, line := range syscallLine.FindAllStringSubmatch(string(data), -1) {
			count[line[1]]++
		}
		if !regexp.MustCompile(`(?m)^\d+ +\+\+\+ exited with \d+ \+\+\+$`).Match(data) {
			return fmt.Errorf("strace has not seen the end of the driver: it wrote %d bytes, at last %q", len(data),
				data[max(0, len(data)-200):])
		}
		return nil
	})
	return count
}
