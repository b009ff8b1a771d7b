// Package lldptest has leaf switches announce themselves by LLDP (IEEE 802.1AB) to a real systemd-networkd. A switch is
// the other end of a veth pair.
package lldptest

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// Networkd returns a directory with the systemd-networkd of Debian 13 and all libraries that it loads, and the command
// that runs it.
func Networkd(t *testing.T) (dir string, command []string) {
	t.Helper()
	dir = rdmaimage.Unpack(t, "trixie", "systemd", "libsystemd-shared", "libacl1", "libaudit1", "libblkid1", "libc6",
		"libcap-ng0", "libcap2", "libcrypt1", "libmount1", "libpam0g", "libpcre2-8-0", "libseccomp2", "libselinux1",
		"libssl3t64", "libzstd1", "zlib1g")
	libraries, err := filepath.Glob(dir + "/usr/lib/*-linux-gnu")
	loaders, err2 := filepath.Glob(dir + "/usr/lib*/*-linux-gnu/ld-linux-*")
	if err := errors.Join(err, err2); err != nil || len(libraries) != 1 || len(loaders) != 1 {
		t.Fatalf("%v, %v, %v", libraries, loaders, err)
	}
	return dir, []string{loaders[0], "--library-path", libraries[0] + ":" + libraries[0] + "/systemd",
		dir + "/usr/lib/systemd/systemd-networkd"}
}

// Header is that of a frame to the nearest bridge.
const Header = "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc"

// Element is an element of an announcement: type, length, value.
func Element(kind int, value string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value)))) + value
}

// Frame is the announcement of a switch with its own name, by a port with a name, for 120 s.
func Frame(system, port string) string {
	return Header + Element(1, "\x07"+system) + Element(2, "\x05"+port) + Element(3, "\x00\x78") +
		Element(5, system) + Element(0, "")
}

// Start runs networkd until the test ends, for interfaces that match, with the command of Networkd. Unless /sys
// is read-only, as in containers, it waits until udev knows an interface. It gives up the rights of root, so its
// directories and files are readable for others. It leaves an interface in its bond.
func Start(t *testing.T, match string, command ...string) {
	t.Helper()
	own, err := user.Lookup("systemd-network")
	if err != nil {
		needs.Missing(t, err)
	}
	uid, uidErr := strconv.Atoi(own.Uid)
	gid, gidErr := strconv.Atoi(own.Gid)
	must.NoError(t, errors.Join(uidErr, gidErr))
	for _, dir := range []string{"", "/network", "/netif", "/netif/links", "/netif/lldp", "/netif/leases"} {
		path := "/run/systemd" + dir
		must.NoError(t, errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)))
		if strings.HasPrefix(dir, "/netif") {
			must.NoError(t, os.Chown(path, uid, gid))
		}
	}
	const file = "/run/systemd/network/10-lldp.network"
	text := "[Match]\nName=" + match + "\n[Network]\nLLDP=yes\nLinkLocalAddressing=no\nKeepMaster=yes\n"
	must.NoError(t, errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, 0o644)))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_TARGET=console")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		test.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	})
}

// Send sends a frame over an interface.
func Send(t *testing.T, netdev, frame string) {
	t.Helper()
	link, err := net.InterfaceByName(netdev)
	must.NoError(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must.NoError(t, err)
	defer unix.Close(fd)
	must.NoError(t, unix.Sendto(fd, []byte(frame), 0, &unix.SockaddrLinklayer{Ifindex: link.Index}))
}
