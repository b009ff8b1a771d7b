package attach

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// driverProcess in the environment makes this program a driver that attaches or detaches once: what to do, the mode,
// the directory, and the namespaces of host and pod.
const driverProcess = "ATTACH_TEST_DRIVER"

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(driverProcess)); len(args) == 5 {
		if err := driver(args[0], args[1], args[2], args[3], args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func driver(do, mode, dir, host, netns string) error {
	ns, err := rdmanetns.Open(host)
	if err != nil {
		return err
	}
	a, err := New(podnet.On(ns, "rdma.dev", nil), &podnet.IPAM{Owner: "rdma.dev"}, filepath.Join(dir, "records"), "boot-1")
	if err != nil {
		return err
	}
	p := Pod{UID: "a", Name: "team-a/a", Netns: netns}
	if do == "attach" {
		_, err := give(context.Background(), a, p, wantsBy(mode))
		return err
	}
	_, err = detachMatching(context.Background(), a, p, anything)
	return err
}

// wantsBy is wants, or a macvlan with an address of the node's block, which has one address.
func wantsBy(mode string) Interface {
	if mode == "block" {
		const block = `{"type": "rdma.dev/block", "subnet": "10.78.0.0/16", "block": "10.78.4.0/30", "gateway": "10.78.4.1"}`
		return leased(wants("macvlan"), block)
	}
	return wants(mode)
}

// process is a driver of its own, whose calls are supervised, on a host with an interface and beside a pod.
type process struct {
	*testing.T
	*sysfault.Supervisor
	host, ns  *podnettest.Namespace
	pod       Pod
	dir, mode string
	before    string
	a         *Attacher // the driver after it
}

func newProcess(t *testing.T, mode string) *process {
	t.Helper()
	needs.Root(t, "network namespaces")
	if err := sysfault.Available(); err != nil {
		needs.Missing(t, err)
	}
	p := &process{T: t, Supervisor: sysfault.New(t), ns: podnettest.New(t), dir: t.TempDir(), mode: mode}
	p.host, p.a = node(t, p.dir, "boot-1")
	p.host.IP("addr add 10.1.0.1/24 dev ens1")
	p.host.IP("link set ens1 mtu 1400 alias rail-1")
	p.pod = Pod{UID: "a", Name: "team-a/a", Netns: p.path(p.ns)}
	p.before = p.picture()
	return p
}

func (p *process) path(ns *podnettest.Namespace) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.FD())
}

// run has the driver do something, while a fault is armed.
func (p *process) run(do string, f sysfault.Fault) (*sysfault.Shot, error) {
	program, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	args := p.Command(program)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), driverProcess+"="+strings.Join([]string{do, p.mode, p.dir, p.path(p.host), p.pod.Netns}, " "))
	shot := p.Arm(f)
	out, err := cmd.CombinedOutput()
	shot.Disarm()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return shot, err
}

// picture is what there is on the host and in the pod.
func (p *process) picture() string {
	p.Helper()
	json := slices.DeleteFunc(records(p.T, p.dir), func(path string) bool { return filepath.Ext(path) != ".json" }) // what was never named goes later
	addresses := strings.Fields(p.host.IP("-br addr show dev ens1"))
	links := p.host.IP("-o link")
	return fmt.Sprint(slices.DeleteFunc(addresses, func(s string) bool { return strings.HasPrefix(s, "fe80:") }),
		strings.Contains(links, " mtu 1400 "), strings.Contains(links, "alias rail-1"), strings.Count(links, "\n"), strings.Count(p.ns.IP("-o link"), "\n"), json)
}

// changes reports whether a driver changes something with a call.
func (p *process) changes(c sysfault.Call) bool {
	return c.Name == "send" || (c.Name == "rename" || c.Name == "unlink") && sysfault.Below(p.dir)(c)
}

// TestKilled: a driver is killed at each request to the kernel and each change of a record, while it
// attaches and while it detaches, or the kernel refuses the request. The next driver takes back all.
func TestKilled(t *testing.T) {
	needs.Proof(t, "hundreds of programs are killed")
	for _, mode := range []string{"move", "macvlan", "ipvlan", "macvlan.100", "block"} {
		t.Run(mode, func(t *testing.T) {
			needsKind(t, mode)
			p := newProcess(t, mode)
			for _, do := range []string{"attach", "detach"} {
				p.each(do, "killed", sysfault.Kill)
				p.each(do, "refused", sysfault.Error(unix.EIO))
			}
		})
	}
}

// each has a fault at the first change that a driver makes, then at the second, until none is left.
func (p *process) each(do, how string, fault func(sysfault.Call) unix.Errno) {
	p.Helper()
	for n, fired := 1, true; fired; n++ {
		if do == "detach" {
			mustAttach(p.T, p.a, p.pod, wantsBy(p.mode))
		}
		shot, err := p.run(do, sysfault.Fault{N: n, Match: p.changes, Do: fault})
		var call sysfault.Call
		if call, fired = shot.Fired(); !fired && err != nil {
			p.Fatalf("%s without a fault: %v", do, err)
		}
		if _, err := detachMatching(p.Context(), p.a, p.pod, anything); err != nil {
			p.Fatal(err)
		}
		if diff := cmp.Diff(p.before, p.picture()); diff != "" {
			p.Fatalf("%s, %s at call %d (%s): %v (-before +after):\n%s", do, how, n, call, err, diff)
		}
	}
}

// TestIPv6Refused: where the kernel refuses the settings of IPv6, the pod has its interface, and the driver knows why.
func TestIPv6Refused(t *testing.T) {
	for name, fails := range map[string]func(sysfault.Call) bool{
		"the setting":  func(c sysfault.Call) bool { return c.Write && filepath.Base(c.Path) == "accept_ra" },
		"all settings": func(c sysfault.Call) bool { return c.Name == "openat" && strings.HasSuffix(c.Path, "/sys/net") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, podnet.Macvlan)
			shot, err := p.run("attach", sysfault.Fault{N: 1, Match: fails, Do: sysfault.Error(unix.EACCES)})
			_, fired := shot.Fired()
			must.True(t, err == nil && fired, must.Sprintf("attach: %v; refused: %v", err, fired))
			i := wants(podnet.Macvlan)
			const want = "routers on the fabric can give network interface rdma0 addresses and routes: " +
				"set net.ipv6.conf.rdma0.accept_ra to 0"
			got := p.a.LacksOf(p.pod, i.Claim.UID, i.Device.Device).OpenIPv6
			test.True(t, strings.HasPrefix(got, want) && strings.Contains(got, "permission denied"),
				test.Sprintf("got %q, want %q and the reason", got, want))
		})
	}
}

// TestCost counts what attaching and detaching ask of kernel and files. More is a failure; less wants a change here, so
// that it stays so. Other pods on the node cost nothing but the look at their records, for their addresses and when one
// ends.
func TestCost(t *testing.T) {
	for mode, want := range map[string]string{
		"move": "attach: send 30, openat 28, rename 2, fsync 0, flock 2, unlink 1; " +
			"detach: send 16, openat 26, rename 0, fsync 0, flock 2, unlink 2",
		"macvlan": "attach: send 18, openat 28, rename 2, fsync 0, flock 2, unlink 1; " +
			"detach: send 3, openat 26, rename 0, fsync 0, flock 2, unlink 2",
		"macvlan.100": "attach: send 24, openat 28, rename 2, fsync 0, flock 2, unlink 1; " +
			"detach: send 5, openat 48, rename 0, fsync 0, flock 2, unlink 2",
		"ipvlan": "attach: send 18, openat 28, rename 2, fsync 0, flock 2, unlink 1; " +
			"detach: send 3, openat 26, rename 0, fsync 0, flock 2, unlink 2",
	} {
		t.Run(mode, func(t *testing.T) { needsKind(t, mode); cost(t, mode, want) })
	}
}

// needsKind skips a test of a mode whose interfaces this kernel cannot make.
func needsKind(t *testing.T, mode string) {
	t.Helper()
	kind, inVLAN := strings.CutSuffix(mode, ".100")
	if kind != podnet.Move {
		podnettest.Kind(t, kind)
	}
	if inVLAN {
		podnettest.Kind(t, "vlan")
	}
}

func cost(t *testing.T, mode, want string) {
	p := newProcess(t, mode)
	for i := range 20 {
		const other = `{"version": 1, "bootID": "boot-1", "claim": "other-%d", "device": "pci-0000-4b-00-0", ` +
			`"pod": {"uid": "b", "netns": "/proc"}}`
		path := filepath.Join(p.dir, "records", fmt.Sprintf("other-%d.pci-0000-4b-00-0.b.json", i))
		must.NoError(t, os.WriteFile(path, fmt.Appendf(nil, other, i), 0o600))
	}
	var got []string
	counted := func(c sysfault.Call) bool { return c.Name == "send" || sysfault.Below(p.dir)(c) }
	for _, do := range []string{"attach", "detach"} {
		counts := map[string]int{}
		shot, err := p.run(do, sysfault.Fault{Match: counted})
		must.NoError(t, err)
		for _, c := range shot.Calls() {
			counts[c.Name]++
		}
		var one []string
		for _, name := range []string{"send", "openat", "rename", "fsync", "flock", "unlink"} {
			one = append(one, fmt.Sprint(name, " ", counts[name]))
		}
		got = append(got, do+": "+strings.Join(one, ", "))
	}
	test.Eq(t, want, strings.Join(got, "; "), test.Sprint(mode))
}
