package vm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// A command's output, status and files come back as they are.
func TestRun(t *testing.T) {
	t.Parallel()
	v := vmtest.Open(t)
	dir := t.TempDir()
	script := `
echo "devices $(ls /sys/class/infiniband | tr '\n' ' ')nodes $(ls /dev/infiniband | tr '\n' ' ')"
echo "controllers $(cat /sys/fs/cgroup/cgroup.controllers)"
echo "quoted: $1"; echo talk >&2
grep CapEff /proc/self/status; prlimit --memlock=unlimited sh -c 'echo "memlock $(ulimit -l)"'
pwd; echo written > file; exit 7`
	var stdout, stderr, console bytes.Buffer
	code, err := v.Run(t.Context(), vm.Cmd{
		Argv: []string{"sh", "-c", script, "sh", `a "b" $c`}, Dir: dir, Shares: []vm.Share{{Path: dir}},
		Devices: []vm.Device{{Name: "rxe0", Netdev: "eth0"}, {Name: "rxe1", Netdev: "dummy0"}, {Name: "siw0", Netdev: "dummy1"}, {Name: "rxe2", Netdev: "veth0"}},
		Stdout:  &stdout, Stderr: &stderr, Console: &console,
	})
	if err != nil || code != 7 {
		t.Fatalf("status %d, %v\n%s%s", code, err, &stdout, &stderr)
	}
	for _, want := range []string{
		"devices rxe0 rxe1 rxe2 siw0 nodes rdma_cm umad0 umad1 umad2 uverbs0 uverbs1 uverbs2 uverbs3",
		"rdma", `quoted: a "b" $c`, "CapEff:\t000001ffffffffff", "memlock unlimited\n", dir + "\n",
	} {
		test.StrContains(t, stdout.String(), want, test.Sprintf("standard output lacks %q:\n%s", want, &stdout))
	}
	if want := "Show Blocked State"; !strings.Contains(console.String(), want) {
		t.Errorf("the command has failed, and the console lacks %q:\n%s", want, &console)
	}
	test.Eq(t, "talk\n", stderr.String(), test.Sprint("standard"))
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "written\n" {
		t.Errorf("the file in the shared directory: %q, %v", got, err)
	}
}

func TestRunFails(t *testing.T) {
	needs.Long(t, "the test bed alone; TestRun has a command that fails")
	t.Parallel()
	v := vmtest.Open(t)
	for _, c := range []struct {
		name    string
		cmd     vm.Cmd
		code    int
		wantErr string
	}{
		{"not found", vm.Cmd{Argv: []string{"no-such-program"}}, 127, ""},
		{"signal", vm.Cmd{Argv: []string{"sh", "-c", "kill -9 $$"}}, 137, ""},
		{"unknown netdev", vm.Cmd{Argv: []string{"true"}, Devices: []vm.Device{{Name: "rxe0", Netdev: "eth7"}}}, 0, `make RDMA device "rxe0" on "eth7"`},
		{"no directory", vm.Cmd{Argv: []string{"true"}, Dir: "/no/such"}, 0, "/no/such"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := v.Run(t.Context(), c.cmd)
			if code != c.code || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("status %d, %v", code, err)
			}
		})
	}
}

// A guest does not end in time. The error says what QEMU's threads and the guest's tasks do.
func TestTimeout(t *testing.T) {
	needs.Long(t, "the test bed alone; TestRun has what is said of a guest whose command fails")
	t.Parallel()
	v := vmtest.Open(t)
	c := vm.Cmd{Argv: []string{"sh", "-c", "echo begun; exec sleep 1000"}}
	var err error
	for limit := 15 * time.Second; ; limit *= 2 { // on a busy machine the guest may not have begun
		var stdout bytes.Buffer
		c.Timeout, c.Stdout = limit, &stdout
		_, err = v.Run(t.Context(), c)
		if !errors.Is(err, vm.ErrTimeout) || !strings.Contains(err.Error(), "time is up after "+limit.String()) {
			t.Fatalf("not a timeout: %v", err)
		}
		if stdout.Len() > 0 {
			break
		}
	}
	for _, want := range []string{
		"threads of QEMU:", "wchan", "VM status: running", "RIP=", "Show clockevent devices", "task:sleep", "hrtimer_nanosleep",
	} {
		test.StrContains(t, err.Error(), want, test.Sprintf("the error lacks %q: %v", want, err))
	}
}

func TestBadCommands(t *testing.T) {
	v := &vm.VM{}
	for _, c := range []vm.Cmd{
		{}, {Argv: []string{"true"}, Shares: []vm.Share{{Path: "/usr"}}},
		{Argv: []string{"true"}, Shares: []vm.Share{{Path: "/no/such"}}},
		{Argv: []string{"true"}, Disk: "a,b"},
	} {
		if _, err := v.Run(t.Context(), c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
