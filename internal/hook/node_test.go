package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// sysOf is sysfs of a fixture machine.
func sysOf(t *testing.T, machine string) string {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	root := t.TempDir()
	must.NoError(t, m.Extract(root))
	return filepath.Join(root, "sys")
}

// TestCheckNodes: nodes of real machines are taken for those of their devices and of no others, however the names of
// the kernel have moved.
func TestCheckNodes(t *testing.T) {
	swap := func(sys string) error { // the uverbs numbers, and the names of the devices with them
		verbs := filepath.Join(sys, "class/infiniband_verbs")
		return os.Rename(filepath.Join(verbs, "uverbs1"), filepath.Join(verbs, "uverbs0"))
	}
	asItIs := map[string]string{"hgx-h100": sysOf(t, "hgx-h100"), "mlx5-sf": sysOf(t, "mlx5-sf")}
	for name, c := range map[string]struct {
		machine string
		change  func(sys string) error
		want    string
		says    string // "" for no error
	}{
		"as it was":         {"hgx-h100", nil, "mlx5_0:uverbs0@0000:19:00.0", ""},
		"a management node": {"hgx-h100", nil, "mlx5_0:umad0@0000:19:00.0", ""},
		"another number":    {"hgx-h100", swap, "mlx5_0:uverbs0@0000:19:00.0", "it is that of mlx5_1 now"},
		"another name and slot": {"hgx-h100", swap, "mlx5_1:uverbs0@0000:19:00.0",
			"mlx5_1 is on 0000:29:00.0 now"},
		"gone": {"hgx-h100", nil, "mlx5_0:uverbs99@0000:19:00.0",
			"uverbs99/ibdev: no such file or directory"},
		"a subfunction": {"mlx5-sf", nil, "mlx5_1:uverbs1@0000:c1:00.0/88", ""},
		"another subfunction": {"mlx5-sf", nil, "mlx5_1:uverbs1@0000:c1:00.0/89",
			"mlx5_1 is on subfunction 88 of 0000:c1:00.0 now"},
		"a subfunction, not its card":     {"mlx5-sf", nil, "mlx5_1:uverbs1@0000:c1:00.0", "is on subfunction 88"},
		"a subfunction of another card":   {"mlx5-sf", nil, "mlx5_1:uverbs1@0000:c1:00.1/88", "is on mlx5_core.sf."},
		"a card, and not its subfunction": {"mlx5-sf", nil, "mlx5_0:uverbs0@0000:c1:00.0/88", "is on 0000:c1:00.0 now"},
		"a kernel without such nodes at all": {"hgx-h100",
			func(sys string) error { return os.RemoveAll(filepath.Join(sys, "class/infiniband_verbs")) },
			"mlx5_0:uverbs0@0000:19:00.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sys := asItIs[c.machine]
			if c.change != nil {
				sys = sysOf(t, c.machine)
				must.NoError(t, c.change(sys))
			}
			want, err := args.ParseNodeOwner(c.want)
			must.NoError(t, err)
			warning, err := HostDevices{Sys: sys}.CheckNodes([]args.NodeOwner{want})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			test.Eq(t, strings.Contains(name, "without such nodes"), (warning != ""),
				test.Sprintf("warning %q", warning))
		})
	}
}

// TestRunChecksNodes: a container with another device's node does not start, whatever may go wrong otherwise, under
// either runtime; one with its own does. Of a host's spec, which names the nodes of all its HCAs, those that the
// container lacks do not count.
func TestRunChecksNodes(t *testing.T) {
	sys, root := sysOf(t, "hgx-h100"), t.TempDir()
	dev := filepath.Join(root, "dev/infiniband")
	must.NoError(t, errors.Join(os.MkdirAll(dev, 0o755), os.WriteFile(filepath.Join(dev, "uverbs0"), nil, 0o644)))
	has := func(int, string) (*usable.Container, error) {
		r, err := usable.OpenRoot(os.Getpid(), root)
		return &usable.Container{Root: r, Sys: sys}, err
	}
	blind := func(int, string) (*usable.Container, error) { return nil, errors.New("no bundle") }
	const own, other, slot, gone = "mlx5_0:uverbs0@0000:19:00.0", "mlx5_0:uverbs1@0000:19:00.0",
		"mlx5_0:uverbs0@0000:29:00.0", "mlx5_9:uverbs99@0000:99:00.0"
	for _, state := range []string{runcState, crunState} {
		for _, c := range []struct {
			flags     []string
			container func(int, string) (*usable.Container, error)
			want      int
		}{
			{[]string{own}, nil, ExitOK}, {[]string{other}, nil, ExitAway}, {[]string{slot}, nil, ExitAway},
			{[]string{own, other, gone}, has, ExitOK}, {[]string{slot, other}, has, ExitAway},
			{[]string{own, gone}, blind, ExitAway}, // what cannot be seen is checked
			{[]string{other, gone}, has, ExitAway}, // a container without any of them is none that the hook knows
		} {
			fd, w := pipe(t)
			w.WriteString(state)
			w.Close()
			process := low()
			var out, talk strings.Builder
			argv := []string{"--memlock", "4Mi", "--on-denied", "ignore"}
			for _, flag := range c.flags {
				argv = append(argv, "--node", flag)
			}
			code := Run(argv, "v9", IO{
				Stdin: fd, Stdout: &out, Stderr: &talk, Open: func(int) (Process, error) { return process, nil },
				Devices: HostDevices{Sys: sys}, Container: c.container,
			})
			if code != c.want || (c.want == ExitAway) != strings.Contains(talk.String(),
				"the kernel has renumbered its RDMA devices") {
				t.Errorf("%s: code %d, want %d; it says %s", c.flags, code, c.want, talk.String())
			}
			test.Eq(t, (c.want == ExitOK), process.limit.Soft > k64,
				test.Sprintf("%s: the limit was raised", c.flags))
		}
	}
}
