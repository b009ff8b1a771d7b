package networkd_test

import (
	"context"
	"errors"
	"net"
	"os"
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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// TestDaemon: what switches send over real cables (veth pairs) is read from the distribution's own networkd. What is no
// announcement, or too long for one, is not.
func TestDaemon(t *testing.T) {
	needs.Root(t, "it makes network interfaces, and runs systemd-networkd")
	if _, err := os.Stat(lldptest.Daemon); err != nil {
		needs.Missing(t, err)
	}
	if mounttest.Isolated(t) {
		listen(t, lldptest.Daemon)
	}
}

// TestDaemonOfVarlink: a newer networkd, which has no files of neighbors, says the same.
func TestDaemonOfVarlink(t *testing.T) {
	needs.Long(t, "packages of Debian 13; TestDaemon has the files of an older networkd, TestRead a reply by varlink")
	needs.Root(t, "it makes network interfaces, and runs systemd-networkd")
	dir := rdmaimage.Unpack(t, "trixie", "systemd", "libsystemd-shared", "libacl1", "libaudit1", "libblkid1", "libc6",
		"libcap-ng0", "libcap2", "libcrypt1", "libmount1", "libpam0g", "libpcre2-8-0", "libseccomp2", "libselinux1",
		"libssl3t64", "libzstd1", "zlib1g")
	if !mounttest.Isolated(t) {
		return
	}
	libraries, err := filepath.Glob(dir + "/usr/lib/*-linux-gnu")
	loaders, err2 := filepath.Glob(dir + "/usr/lib*/*-linux-gnu/ld-linux-*")
	if err := errors.Join(err, err2); err != nil || len(libraries) != 1 || len(loaders) != 1 {
		t.Fatalf("%v, %v, %v", libraries, loaders, err)
	}
	listen(t, loaders[0], "--library-path", libraries[0]+":"+libraries[0]+"/systemd",
		dir+"/usr/lib/systemd/systemd-networkd")
	if files, err := os.ReadDir("/" + networkd.Dir + "/lldp"); err == nil && len(files) > 0 {
		t.Errorf("this networkd has files of neighbors: %v", files)
	}
}

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
	names, indexes := map[int]string{}, []int{}
	for _, name := range netdevs {
		link, err := net.InterfaceByName(name)
		must.NoError(t, err)
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
		out[names[index]] = one.Neighbors
	}
	return out
}
