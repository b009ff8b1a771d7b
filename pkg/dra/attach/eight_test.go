package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// eightProcess in the environment makes TestEightProcess a driver that gives a pod interfaces on HCAs, or takes them
// back: what to do, how many, the directory, and the namespaces of host and pod.
const eightProcess = "ATTACH_TEST_EIGHT"

// TestEightProcess is no test but the driver of TestCostOfEight.
func TestEightProcess(t *testing.T) {
	args := strings.Fields(os.Getenv(eightProcess))
	if len(args) != 5 {
		return
	}
	var count int
	if _, err := fmt.Sscan(args[1], &count); err != nil {
		t.Fatal(err)
	}
	ns, err := rdmanetns.Open(args[3])
	must.NoError(t, err)
	a, err := New(podnet.On(ns, "rdma.dev", nil), &podnet.IPAM{Owner: "rdma.dev"}, filepath.Join(args[2], "records"), "boot-1")
	if err == nil && args[0] == "attach" {
		err = attachEach(a, Pod{UID: "a", Name: "team-a/a", Netns: args[4]}, eachOn(t, count))
	} else if err == nil {
		_, err = detachMatching(context.Background(), a, Pod{UID: "a", Name: "team-a/a", Netns: args[4]}, anything)
	}
	must.NoError(t, err)
}

// attachEach gives a pod its interfaces as the driver does: first all addresses, then all interfaces.
func attachEach(a *Attacher, p Pod, all []Interface) error {
	for _, i := range all {
		if err := a.Lease(context.Background(), p, i); err != nil {
			return err
		}
	}
	var errs []error
	for _, i := range all {
		_, err := a.Attach(context.Background(), p, i)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// eachOn returns the interfaces of a claim with some HCAs, each with an address of the node's block.
func eachOn(t *testing.T, count int) (all []Interface) {
	for n := range count {
		i := of(blockOf(t, 1, 24), "claim")
		i.Device.Device = fmt.Sprintf("pci-0000-%02x-00-0", n)
		i.Netdev, i.Device.Network.Interface = fmt.Sprintf("ens%d", n+1), fmt.Sprintf("rdma%d", n)
		all = append(all, i)
	}
	return all
}

// TestCostOfEight counts what one pod with macvlans on eight HCAs asks of the kernel, and compares it with a pod with
// one. Its requests to the kernel are eight times as many, and each lock is held for one interface at a time. Calls on
// records are more: each interface looks at the addresses of all others.
func TestCostOfEight(t *testing.T) {
	p := newProcess(t, podnet.Macvlan)
	for n := range 7 {
		p.host.Wire(fmt.Sprintf("ens%d", n+2))
	}
	want := map[string]string{
		"attach 1": "send 20, openat 18, rename 4, fsync 0, flock 4, all 85",
		"detach 1": "send 3, openat 8, rename 0, fsync 0, flock 3, all 32",
		"attach 8": "send 160, openat 229, rename 32, fsync 0, flock 32, all 1029",
		"detach 8": "send 24, openat 50, rename 0, fsync 0, flock 24, all 200",
	}
	for _, count := range []int{1, 8} {
		for _, do := range []string{"attach", "detach"} {
			name := fmt.Sprint(do, " ", count)
			test.Eq(t, want[name], p.costOf(do, count), test.Sprint(name))
		}
	}
}

// costOf returns the counts of requests to the kernel and of calls on the records.
func (p *process) costOf(do string, count int) string {
	p.Helper()
	program, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	args := p.Command(program, "-test.run=^TestEightProcess$")
	cmd := exec.Command(args[0], args[1:]...)
	settings := strings.Join([]string{do, fmt.Sprint(count), p.dir, p.path(p.host), p.pod.Netns}, " ")
	cmd.Env = append(os.Environ(), eightProcess+"="+settings)
	below := sysfault.Below(p.dir)
	shot := p.Arm(sysfault.Fault{Match: func(c sysfault.Call) bool { return c.Name == "send" || below(c) }})
	out, err := cmd.CombinedOutput()
	shot.Disarm()
	if err != nil {
		p.Fatalf("%s %d: %v: %s", do, count, err, out)
	}
	counts := map[string]int{}
	for _, c := range shot.Calls() {
		counts[c.Name]++
		counts["all"]++
	}
	var one []string
	for _, name := range []string{"send", "openat", "rename", "fsync", "flock", "all"} {
		one = append(one, fmt.Sprint(name, " ", counts[name]))
	}
	return strings.Join(one, ", ")
}
