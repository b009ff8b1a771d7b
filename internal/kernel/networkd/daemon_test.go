package networkd_test

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestDaemon: what switches send over real cables (veth pairs) is read from the networkd of Debian 13. What is no
// announcement, or too long for one, is not.
func TestDaemon(t *testing.T) {
	needs.Long(t, "packages of Debian 13; TestRead has a reply")
	needs.Root(t, "it makes network interfaces, and runs systemd-networkd")
	_, command := lldptest.Networkd(t)
	if mounttest.Isolated(t) {
		listen(t, command...)
	}
}

const header = lldptest.Header

// tlv is an element of an announcement.
var tlv = lldptest.Element

// leaf is the frame of a switch: its address, a port with a name, 120 s, its own name, an enabled bridge and router.
var leaf = header + tlv(1, "\x04\x0c\x42\xa1\x00\x00\x07") + tlv(2, "\x05Ethernet1/7") + tlv(3, "\x00\x78") +
	tlv(4, "to worker-1") + tlv(5, "leaf-7") + tlv(7, "\x00\x14\x00\x14") +
	tlv(127, "\x00\x80\xc2\x01\x00\x01") + tlv(0, "")

// listen reads what switches send over real cables from a networkd, in a mount namespace of the process's own.
func listen(t *testing.T, command ...string) {
	t.Helper()
	runtime.LockOSThread() // until the process ends: it has another network namespace
	must.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	mounttest.Tmpfs(t, "/run", "mode=0755")
	// networkd asks udev about links, unless /sys is read-only, as in containers.
	must.NoError(t, unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""))
	for i := range 2 {
		number := strconv.Itoa(i)
		run(t, "ip", "link", "add", "eth"+number, "type", "veth", "peer", "name", "sw"+number)
		run(t, "ip", "link", "set", "eth"+number, "up")
		run(t, "ip", "link", "set", "sw"+number, "up")
	}
	lldptest.Start(t, "eth*", command...)

	other := header + tlv(1, "\x04\x0c\x42\xa1\x00\x00\x08") + tlv(2, "\x07swp1") + tlv(3, "\x00\x78") +
		tlv(5, strings.Repeat("x", 511)) + tlv(0, "")
	want := map[string][]networkd.Neighbor{
		"eth0": {leafHeard},
		"eth1": {{
			Chassis: "0c:42:a1:00:00:08", System: strings.Repeat("x", 511), Port: "swp1",
		}},
	}
	deadline := time.Now().Add(3 * time.Minute)
	for {
		for _, frame := range []string{leaf, header + "\xff\xff", leaf[:30], header + tlv(0, "")} {
			lldptest.Send(t, "sw0", frame)
		}
		lldptest.Send(t, "sw1", other)
		diff := cmp.Diff(want, hear(t, "eth0", "eth1"))
		if diff == "" {
			return
		}
		must.False(t, time.Now().After(deadline), must.Sprintf("neighbors differ (-want +got):\n%s", diff))
		time.Sleep(200 * time.Millisecond) // between two frames
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// hear returns the neighbors of interfaces.
func hear(t *testing.T, netdevs ...string) map[string][]networkd.Neighbor {
	t.Helper()
	names := map[int]string{}
	for _, name := range netdevs {
		link, err := net.InterfaceByName(name)
		must.NoError(t, err)
		names[link.Index] = name
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join("/", networkd.Dir, networkd.Socket))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard, err := networkd.Read(ctx, dial)
	if err != nil {
		t.Log(err) // it is just starting
		return nil
	}
	out := map[string][]networkd.Neighbor{}
	for index, name := range names {
		out[name] = heard[index]
	}
	return out
}
