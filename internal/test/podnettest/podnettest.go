// Package podnettest makes network namespaces of the real kernel for tests.
package podnettest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// Namespace is a network namespace that lives until the test ends.
type Namespace struct {
	*rdmanetns.Namespace
	t testing.TB
}

// New makes a namespace. It needs root, and skips the test of others.
func New(t testing.TB) *Namespace {
	t.Helper()
	needs.Root(t, "network namespaces")
	var ns *rdmanetns.Namespace
	var err error
	thread.Do(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns, err = rdmanetns.Own()
		}
	})
	must.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	n := &Namespace{ns, t}
	must.NoError(t, n.Do(setDefaults))
	n.IP("link set lo up")
	return n
}

// defaults are the kernel's own settings of IPv4 interfaces (net/ipv4/devinet.c).
var defaults = map[string]string{
	"accept_local": "0", "accept_redirects": "1", "arp_accept": "0", "arp_announce": "0", "arp_filter": "0",
	"arp_ignore": "0", "arp_notify": "0", "forwarding": "0", "log_martians": "0", "promote_secondaries": "0",
	"proxy_arp": "0", "route_localnet": "0", "rp_filter": "0", "secure_redirects": "1", "send_redirects": "1",
	"shared_media": "1", "src_valid_mark": "0",
}

// setDefaults sets them in the namespace of the thread. A new namespace inherits the settings of the machine
// (net.core.devconf_inherit_init_net), where a container engine or a distribution has changed some.
func setDefaults() error {
	var errs []error
	for _, link := range []string{"all", "default", "lo"} {
		for name, value := range defaults {
			errs = append(errs, os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/"+name, []byte(value), 0o644))
		}
	}
	return errors.Join(errs...)
}

// Path leads to the namespace, in this process and until the test ends.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/self/fd/%d", n.FD()) }

// Try runs ip(8) in the namespace.
func (n *Namespace) Try(args string) (out string, err error) {
	err = n.Do(func() error {
		b, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		out = string(b)
		return err
	})
	return out, err
}

// IP runs ip(8) in the namespace, and fails the test where it fails.
func (n *Namespace) IP(args string) string {
	n.t.Helper()
	out, err := n.Try(args)
	must.NoError(n.t, err, must.Sprintf("ip %s: %v: %s", args, err, out))
	return out
}

// Process starts a process in the namespace, for programs that name one by a process.
func (n *Namespace) Process() (pid int) {
	n.t.Helper()
	cmd := exec.Command("sleep", "600")
	must.NoError(n.t, n.Do(cmd.Start))
	n.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// Wire makes an interface whose other end is up: a stand-in for one of hardware.
func (n *Namespace) Wire(name string) {
	n.t.Helper()
	n.IP("link add " + name + " type veth peer name w-" + name)
	n.IP("link set w-" + name + " up")
	n.IP("link set " + name + " up")
}

// Plugins returns the directory of the CNI plugins, which test/cluster builds.
func Plugins(t testing.TB) string {
	t.Helper()
	return filepath.Dir(needs.Program(t, "host-local", "go -C test/cluster run ./cmd/cluster build prints where CNI "+
		"plugins are"))
}

// Kind skips a test that needs interfaces of a type that this kernel cannot make. The types that tests name without it
// are in every kernel of the tests.
func Kind(t testing.TB, kind string) {
	t.Helper()
	n := New(t)
	n.IP("link add parent type veth peer name wire")
	args := map[string]string{
		"bond": "link add made type bond", "vlan": "link add link parent name made type vlan id 2",
	}[kind]
	if args == "" {
		args = "link add link parent name made type " + kind
	}
	if out, err := n.Try(args); err != nil {
		t.Skipf("this kernel makes no interfaces of type %s (%s); that of test/vm does: TestInterfaces",
			kind, strings.TrimSpace(out))
	}
}
