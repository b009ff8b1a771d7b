package hook

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func TestCheckInterfaces(t *testing.T) {
	want := []args.Interface{{Name: "rdma0", Alias: "a"}, {Name: "rdma1", Alias: "b"}}
	for name, c := range map[string]struct {
		devices fakeDevices
		says    string // "" for no error
	}{
		"all there": {fakeDevices{owners: map[string]string{"rdma0": "a", "rdma1": "b"}}, ""},
		"not attached": {fakeDevices{owners: map[string]string{"rdma0": "a"}},
			"network interface rdma1 of the claim is not in the pod's network namespace"},
		"somebody else's": {fakeDevices{owners: map[string]string{"rdma0": "", "rdma1": "b"}},
			"rdma0 in the pod's network namespace is not that of the claim"},
		"cannot find out": {fakeDevices{err: os.ErrPermission},
			"look for interface rdma0 in the container's network namespace: permission denied"},
	} {
		err := CheckInterfaces(c.devices, 1, want, time.Now().Add(time.Second))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}

// TestInterfaceOfKernel: the whole program, with the kernel.
func TestInterfaceOfKernel(t *testing.T) {
	ns := podnettest.New(t)
	ns.IP("link add rdma0 type veth peer name peer")
	ns.IP("link set rdma0 alias rdma.dev/claim/1/nic")
	pid := ns.Process()
	for flag, want := range map[string]int{
		"rdma0:rdma.dev/claim/1/nic": ExitOK,
		"rdma0:rdma.dev/claim/2/nic": ExitAway,
		"rdma1:rdma.dev/claim/1/nic": ExitAway,
	} {
		r, w, err := os.Pipe()
		must.NoError(t, err)
		fmt.Fprintf(w, `{"ociVersion":"1.0.2","id":"c","status":"creating","pid":%d,"bundle":"/b"}`, pid)
		w.Close()
		var stderr bytes.Buffer
		got := Run([]string{"--interface", flag, "--on-denied", "ignore"}, "v1", IO{
			Stdin: r, Stdout: &stderr, Stderr: &stderr, Open: OpenProcess, Files: HostFiles{}, Devices: HostDevices{},
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
