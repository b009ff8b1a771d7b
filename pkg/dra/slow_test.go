package dra_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// slowPlugin is a CNI plugin that writes down what it is asked, and for pods of one claim does not answer before it is let go.
type slowPlugin struct{ dir string }

func newSlowPlugin(t *testing.T, slow string) *slowPlugin {
	t.Helper()
	p := &slowPlugin{t.TempDir()}
	script := `#!/bin/sh
echo "$CNI_COMMAND ${CNI_CONTAINERID%%.*}" >>` + p.dir + `/log
case "$CNI_COMMAND $CNI_CONTAINERID" in
` + slow + `) read line <` + p.dir + `/go;;
esac
[ "$CNI_COMMAND" = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.'$(grep -c ADD ` + p.dir + `/log)'/24"}]}'
`
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "plugin"), []byte(script), 0o755))
	must.NoError(t, unix.Mkfifo(filepath.Join(p.dir, "go"), 0o600))
	return p
}

// letGo lets the plugin answer, now and from now on.
func (p *slowPlugin) letGo(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(p.dir, "go"), os.O_RDWR, 0)
	must.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteString(strings.Repeat("\n", 100))
	must.NoError(t, err)
}

// asked returns what the plugin was asked for a claim.
func (p *slowPlugin) asked(claim string) (out []string) {
	data, _ := os.ReadFile(filepath.Join(p.dir, "log")) // not there before the first time
	for line := range strings.Lines(string(data)) {
		if command, of, _ := strings.Cut(strings.TrimSpace(line), " "); of == claim {
			out = append(out, command)
		}
	}
	return out
}

// slowNode is a node with two claims for pods a and b that have addresses by a plugin which is slow for the first.
func slowNode(t *testing.T, slow string) (n *drivertest.Node, d *driver, p *slowPlugin, a, b nri.Pod, in map[string]*podnettest.Namespace) {
	t.Helper()
	first := drivertest.Claim(1, vf)
	p = newSlowPlugin(t, strings.ReplaceAll(slow, "FIRST", string(first.UID)))
	_, attach := attaching(t, p.dir)
	n = drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, "ipam:", "  roce: {type: plugin}")
	d = start(t, n, attach, m.with(t))
	in = map[string]*podnettest.Namespace{}
	a, in["a"] = inside(t, "a")
	b, in["b"] = inside(t, "b")
	for i, pod := range []nri.Pod{a, b} {
		c := wanting(reserved(i+1, pod, []string{vf, "pci-0000-3b-00-0"}[i]), `{"mode": "macvlan", "ipam": "roce"}`)
		n.AddClaim(c)
		prepare(t, n, c)
	}
	return n, d, p, a, b, in
}

// TestSlowPlugin: while a plugin thinks about the address of a pod, another pod starts and ends.
func TestSlowPlugin(t *testing.T) {
	n, d, p, a, b, in := slowNode(t, `"ADD FIRST".*`)
	first := string(drivertest.Claim(1, vf).UID)
	started := make(chan error, 1)
	go func() { started <- d.Sandboxes().Started(t.Context(), a) }()
	drivertest.Eventually(t, func() error {
		if len(p.asked(first)) == 0 {
			return errors.New("the plugin is not asked")
		}
		return nil
	})
	d.starts(b)
	in["b"].IP("link show dev rdma0")
	d.Sandboxes().Stopped(t.Context(), b)
	select {
	case err := <-started:
		t.Fatalf("the other pod waited until the first one was started: %v", err)
	default:
	}
	p.letGo(t)
	test.NoError(t, <-started)
	in["a"].IP("link show dev rdma0")
	d.Sandboxes().Stopped(t.Context(), a)
	noRecords(t, n)
}

// TestSlowPluginLate: a plugin that takes longer than the runtime waits is stopped, and the pod starts without its address. What it may have
// given is given back before it is asked again, and the pod gets its interface then.
func TestSlowPluginLate(t *testing.T) {
	t.Parallel()
	n, d, p, a, _, in := slowNode(t, `"ADD FIRST".*`)
	first := string(drivertest.Claim(1, vf).UID)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // the runtime's
	defer cancel()
	must.NoError(t, d.Sandboxes().Started(ctx, a))
	test.SliceEqOp(t, []nri.Pod{a}, d.Pending(), test.Sprint("pending"))
	out, err := in["a"].Try("link show dev rdma0")
	test.Error(t, err, test.Sprintf("it has an interface: %s", out))
	p.letGo(t)
	drivertest.Eventually(t, func() error {
		if out := in["a"].IP("-br addr"); !strings.Contains(out, "10.78.0.2/24") {
			return fmt.Errorf("it has %s", out)
		}
		return nil
	})
	test.SliceEqOp(t, []string{"ADD", "DEL", "ADD"}, p.asked(first), test.Sprint("the plugin was asked"))
	d.Sandboxes().Stopped(t.Context(), a)
	noRecords(t, n)
}

// TestSlowPluginStopped: a pod ends while a plugin thinks about its address, and while it takes the address back. It has ended
// all the same, and the address is given back.
func TestSlowPluginStopped(t *testing.T) {
	t.Parallel()
	n, d, p, a, b, in := slowNode(t, `"ADD FIRST".*|"DEL FIRST".*`)
	first := string(drivertest.Claim(1, vf).UID)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	must.NoError(t, d.Sandboxes().Started(ctx, a))
	drivertest.Eventually(t, func() error { // it is asked again by now, which begins with giving back
		if got := p.asked(first); len(got) < 2 {
			return fmt.Errorf("the plugin was asked %q", got)
		}
		return nil
	})
	stopping, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	d.Sandboxes().Stopped(stopping, a)
	d.starts(b)
	in["b"].IP("link show dev rdma0")
	d.Sandboxes().Stopped(t.Context(), b)
	p.letGo(t)
	drivertest.Eventually(t, func() error {
		left, err := filepath.Glob(filepath.Join(n.PluginDir(), "interfaces", "*"))
		if len(left) > 0 {
			d.Sandboxes().Running(t.Context(), nil) // as each minute
			err = fmt.Errorf("left are %q", left)
		}
		return err
	})
	got := p.asked(first)
	test.Eq(t, "DEL", got[len(got)-1], test.Sprintf("the plugin was asked %q", got))
	out, err := in["a"].Try("link show dev rdma0")
	test.Error(t, err, test.Sprintf("the pod has got %s", out))
}
