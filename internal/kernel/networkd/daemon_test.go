package networkd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

const daemon = "/lib/systemd/systemd-networkd"

// TestDaemon: what switches send over real cables (veth pairs) is read from the distribution's own networkd. What is no
// announcement, or too long for one, is not.
func TestDaemon(t *testing.T) {
	needs.Root(t, "it makes network interfaces, and runs systemd-networkd")
	if _, err := os.Stat(daemon); err != nil {
		needs.Missing(t, err)
	}
	if !mounttest.Isolated(t) {
		return
	}
	runtime.LockOSThread() // until the process ends: it has another network namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	mounttest.Tmpfs(t, "/run", "mode=0755")
	// networkd asks udev about links, unless /sys is read-only, as in containers.
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		number := strconv.Itoa(i)
		run(t, "ip", "link", "add", "eth"+number, "type", "veth", "peer", "name", "sw"+number)
		run(t, "ip", "link", "set", "eth"+number, "up")
		run(t, "ip", "link", "set", "sw"+number, "up")
	}
	startDaemon(t)

	other := header + tlv(1, "\x04\x0c\x42\xa1\x00\x00\x08") + tlv(2, "\x07swp1") + tlv(3, "\x00\x78") +
		tlv(5, strings.Repeat("x", 511)) + tlv(0, "")
	want := map[string][]networkd.Neighbor{
		"eth0": {leafHeard},
		"eth1": {{
			Chassis: "0c:42:a1:00:00:08", System: strings.Repeat("x", 511), Port: "swp1", TTL: 2 * time.Minute,
		}},
	}
	deadline := time.Now().Add(3 * time.Minute)
	for {
		for _, frame := range []string{leaf, header + "\xff\xff", leaf[:30], header + tlv(0, "")} {
			send(t, "sw0", frame)
		}
		send(t, "sw1", other)
		diff := cmp.Diff(want, hear(t, "eth0", "eth1"))
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("neighbors differ (-want +got):\n%s", diff)
		}
		time.Sleep(200 * time.Millisecond) // between two frames
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// startDaemon runs networkd until the test ends. It gives up the rights of root, so directories and files are readable
// for others.
func startDaemon(t *testing.T) {
	t.Helper()
	own, err := user.Lookup("systemd-network")
	if err != nil {
		needs.Missing(t, err)
	}
	uid, uidErr := strconv.Atoi(own.Uid)
	gid, gidErr := strconv.Atoi(own.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/network", "/netif", "/netif/links", "/netif/lldp", "/netif/leases"} {
		path := "/run/systemd" + dir
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(dir, "/netif") {
			if err := os.Chown(path, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	const file = "/run/systemd/network/10-eth.network"
	text := "[Match]\nName=eth*\n[Network]\nLLDP=yes\nLinkLocalAddressing=no\n"
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_TARGET=console")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
}

// send sends a frame over an interface.
func send(t *testing.T, netdev, frame string) {
	t.Helper()
	link, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, []byte(frame), 0, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
		t.Fatal(err)
	}
}

// hear returns the neighbors of interfaces. An answer of a newer networkd has no TTL.
func hear(t *testing.T, netdevs ...string) map[string][]networkd.Neighbor {
	t.Helper()
	names, indexes := map[int]string{}, []int{}
	for _, name := range netdevs {
		link, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		names[link.Index], indexes = name, append(indexes, link.Index)
	}
	dir := "/" + networkd.Dir
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, networkd.Socket))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard, err := networkd.Read(ctx, hostfs.DirFS(dir), dial, indexes)
	if err != nil {
		t.Log(err) // it is just starting
		return nil
	}
	out := map[string][]networkd.Neighbor{}
	for index, one := range heard {
		for _, n := range one.Neighbors {
			n.TTL = 2 * time.Minute
			out[names[index]] = append(out[names[index]], n)
		}
	}
	return out
}
