package vm_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// Two guests at a switch: rdma_cm and RDMA between them, counted as such; the carrier goes and comes back at one of
// them; a cut in the middle takes no carrier away.
func TestSwitchGuests(t *testing.T) {
	needs.Long(t, "the test bed alone; TestTwoNodes has two guests at switches")
	t.Parallel() // its machines have one CPU each
	v := vmtest.Open(t)
	sw := newSwitch(t)
	server := startGuest(t, v, sw, 1, `exec rping -s -a 10.77.1.1 -v -P`)
	client := startGuest(t, v, sw, 2, `
carrier() { until [ "$(cat /sys/class/net/eth1/carrier)" = $1 ]; do sleep 0.1; done; echo "carrier $1"; }
until rping -c -a 10.77.1.1 -I 10.77.1.2 -C 3 -v >/tmp/said 2>&1; do sleep 0.2; done
echo "pinged $(grep -c 'ping data' /tmp/said)"
carrier 0; carrier 1
while ping -q -c 1 -W 2 10.77.1.1 >/dev/null; do :; done; echo "cut, carrier $(cat /sys/class/net/eth1/carrier)"
until ping -q -c 1 -W 2 10.77.1.1 >/dev/null; do :; done; echo back`)
	client.says(t, "pinged 3")
	for _, p := range []*vm.Port{server.port, client.port} {
		test.GreaterEq(t, 3, p.Sent(vm.RoCE).Frames,
			test.Sprintf("the switch counts %v of RoCE from %s", p.Sent(vm.RoCE), p.MAC()))
	}
	for _, up := range []bool{false, true} {
		must.NoError(t, client.port.Carrier(up))
		client.says(t, map[bool]string{false: "carrier 0", true: "carrier 1"}[up])
	}
	sw.Cut(true)
	client.says(t, "cut, carrier 1")
	sw.Cut(false)
	client.says(t, "back")
	test.NotEq(t, 0, server.port.Lost().Frames+client.port.Lost().Frames,
		test.Sprint("the switch lost no frame while it was cut"))
}

// guest is one that runs a script, with a soft-RoCE device at its port.
type guest struct {
	port  *vm.Port
	lines *bufio.Scanner
	end   context.CancelCauseFunc
}

// startGuest starts a guest, which ends with the test.
func startGuest(t *testing.T, v *vm.VM, sw *vm.Switch, number int, script string) guest {
	t.Helper()
	port, err := sw.Port()
	must.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	out, in := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, err := v.Run(ctx, vm.Cmd{
			Argv: []string{"sh", "-c", script}, Ports: []*vm.Port{port}, Number: number,
			Devices: []vm.Device{{Name: "rxe0", Netdev: "eth1"}}, Stdout: in, Stderr: in,
		})
		in.CloseWithError(fmt.Errorf("guest %d has ended with status %d, %w", number, code, err))
	}()
	t.Cleanup(func() { cancel(nil); out.Close(); <-ended })
	return guest{port, bufio.NewScanner(out), cancel}
}

// says waits for a line.
func (g guest) says(t *testing.T, want string) {
	t.Helper()
	late := time.AfterFunc(2*time.Minute, func() { g.end(vm.ErrFailed) })
	defer late.Stop()
	for g.lines.Scan() {
		if strings.TrimSpace(g.lines.Text()) == want {
			return
		}
		t.Logf("guest %s: %s", g.port.MAC(), g.lines.Text())
	}
	t.Fatalf("before it said %q: %v", want, g.lines.Err())
}
