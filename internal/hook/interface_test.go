package hook

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func TestCheckInterfaces(t *testing.T) {
	want := []Interface{{"rdma0", "a"}, {"rdma1", "b"}}
	for name, c := range map[string]struct {
		devices fakeDevices
		says    string // "" for no error
	}{
		"all there":       {fakeDevices{owners: map[string]string{"rdma0": "a", "rdma1": "b"}}, ""},
		"not attached":    {fakeDevices{owners: map[string]string{"rdma0": "a"}}, "network interface rdma1 of the claim is not in the pod's network namespace"},
		"somebody else's": {fakeDevices{owners: map[string]string{"rdma0": "", "rdma1": "b"}}, "rdma0 in the pod's network namespace is not that of the claim"},
		"cannot find out": {fakeDevices{err: os.ErrPermission}, "look for interface rdma0 in the container's network namespace: permission denied"},
	} {
		err := CheckInterfaces(c.devices, 1, want, time.Now().Add(time.Second))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}

func TestParseInterface(t *testing.T) {
	if i, err := ParseInterface("rdma0:rdma.dev/claim/1/x:y"); err != nil || i != (Interface{"rdma0", "rdma.dev/claim/1/x:y"}) {
		t.Errorf("%v, %v", i, err)
	}
	for _, bad := range []string{"", "rdma0", "rdma0:", ":alias", "rd ma0:a", "a-name-too-long0:a"} {
		if i, err := ParseInterface(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, i)
		}
	}
}

// inNamespace starts a process in a network namespace of its own, with an interface.
func inNamespace(t *testing.T, name, alias string) (pid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	ns, err := netns.GetFromPid(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}
	if err := h.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	if err := h.LinkSetAlias(link, alias); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestInterfaceOfKernel: the whole program, with the kernel.
func TestInterfaceOfKernel(t *testing.T) {
	pid := inNamespace(t, "rdma0", "rdma.dev/claim/1/nic")
	for flag, want := range map[string]int{
		"rdma0:rdma.dev/claim/1/nic": ExitOK,
		"rdma0:rdma.dev/claim/2/nic": ExitAway,
		"rdma1:rdma.dev/claim/1/nic": ExitAway,
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, `{"ociVersion":"1.0.2","id":"c","status":"creating","pid":%d,"bundle":"/b"}`, pid)
		w.Close()
		var stderr bytes.Buffer
		got := Run([]string{"--interface", flag, "--on-denied", "ignore"}, "v1", IO{
			Stdin: int(r.Fd()), Stdout: &stderr, Stderr: &stderr, Open: OpenProcess, Files: HostFiles{}, Devices: HostDevices{},
		})
		r.Close()
		if got != want || want == ExitAway && !strings.Contains(stderr.String(), "rdma") {
			t.Errorf("%s: exit code %d, want %d: %s", flag, got, want, &stderr)
		}
	}
}

func FuzzReadAlias(f *testing.F) {
	f.Add(linkRequest("rdma0"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		readAlias(func(into []byte) (int, error) { return copy(into, b), nil })
	})
}
