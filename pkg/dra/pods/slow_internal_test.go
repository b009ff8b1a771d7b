package pods

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// slowPlugin is a CNI plugin that writes down what it is asked. It does not answer for pods of one claim until let go.
type slowPlugin struct{ dir string }

func newSlowPlugin(t *testing.T, slow string) *slowPlugin {
	t.Helper()
	p := &slowPlugin{t.TempDir()}
	script := `#!/bin/sh
echo "$CNI_COMMAND ${CNI_CONTAINERID%%.*}" >>` + p.dir + `/log
case "$CNI_COMMAND $CNI_CONTAINERID" in
` + slow + `) read line <` + p.dir + `/go;;
esac
n=$(grep -c ADD ` + p.dir + `/log)
[ "$CNI_COMMAND" = DEL ] || echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.78.0.'$n'/24"}]}'
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

// slowNode has two claims for pods a and b, with addresses by a plugin that is slow for the first.
type slowNode struct {
	*served
	*slowPlugin
	a, b     nri.Pod
	inA, inB *podnettest.Namespace
}

func newSlowNode(t *testing.T, slow string) *slowNode {
	t.Helper()
	n := &slowNode{slowPlugin: newSlowPlugin(t, strings.ReplaceAll(slow, "FIRST", first))}
	n.served = serve(t, "roce-sriov", attaching(vfNetdev, pfNetdev), leasing(n.slowPlugin.dir, `{"type": "plugin"}`))
	n.a, n.inA = inside(t, "a")
	n.b, n.inB = inside(t, "b")
	for _, c := range []*resourceapi.ResourceClaim{claimOf(1, n.a, vf), claimOf(2, n.b, pf)} {
		n.prepares(t, drivertest.WithNetwork(c, `{"mode": "macvlan", "ipam": "roce"}`))
	}
	return n
}

// first is the UID of the claim with the slow plugin.
var first = string(drivertest.Claim(1).UID)

// TestSlowPlugin: while a plugin thinks about the address of a pod, another pod starts and ends.
func TestSlowPlugin(t *testing.T) {
	n := newSlowNode(t, `"ADD FIRST".*`)
	started := make(chan error, 1)
	go func() { started <- n.Started(n.ctx, n.a) }()
	eventually(t, "the plugin is asked", func() bool { return len(n.asked(first)) > 0 })
	n.starts(n.b)
	n.inB.IP("link show dev rdma0")
	n.Stopped(n.ctx, n.b)
	select {
	case err := <-started:
		t.Fatalf("the other pod waited until the first one was started: %v", err)
	default:
	}
	n.letGo(t)
	test.NoError(t, <-started)
	n.inA.IP("link show dev rdma0")
	n.Stopped(n.ctx, n.a)
	n.noRecords()
}

// slowRuntimeTime is what the runtime waits for an answer. The plugin, a shell script, begins within half of it.
const slowRuntimeTime = 4 * time.Second

// TestSlowPluginLate: a plugin that takes longer than the runtime waits is stopped, and the pod starts without its
// address. What it may have given is given back before it is asked again, and the pod gets its interface then.
func TestSlowPluginLate(t *testing.T) {
	t.Parallel()
	n := newSlowNode(t, `"ADD FIRST".*`)
	n.runs(t)
	ctx, cancel := context.WithTimeout(n.ctx, slowRuntimeTime)
	defer cancel()
	must.NoError(t, n.Started(ctx, n.a))
	test.SliceEqOp(t, []nri.Pod{n.a}, n.Pending(), test.Sprint("pending"))
	out, err := n.inA.Try("link show dev rdma0")
	test.Error(t, err, test.Sprintf("it has an interface: %s", out))
	n.letGo(t)
	eventually(t, "the pod has its address", func() bool { return strings.Contains(n.inA.IP("-br addr"), "10.78.0.2/24") })
	test.SliceEqOp(t, []string{"ADD", "DEL", "ADD"}, n.asked(first), test.Sprint("the plugin was asked"))
	n.Stopped(n.ctx, n.a)
	n.noRecords()
}

// TestSlowPluginStopped: a pod ends while a plugin thinks about its address, and while it takes the address back. The
// pod has ended all the same, and the address is given back.
func TestSlowPluginStopped(t *testing.T) {
	t.Parallel()
	n := newSlowNode(t, `"ADD FIRST".*|"DEL FIRST".*`)
	n.runs(t)
	ctx, cancel := context.WithTimeout(n.ctx, slowRuntimeTime)
	defer cancel()
	must.NoError(t, n.Started(ctx, n.a))
	// It is asked again, which begins with giving back.
	eventually(t, "the plugin is asked again", func() bool { return len(n.asked(first)) > 1 })
	stopping, cancel := context.WithTimeout(n.ctx, slowRuntimeTime)
	defer cancel()
	n.Stopped(stopping, n.a)
	n.starts(n.b)
	n.inB.IP("link show dev rdma0")
	n.Stopped(n.ctx, n.b)
	n.letGo(t)
	eventually(t, "no record is left", func() bool {
		left, err := filepath.Glob(filepath.Join(n.interfaceDir(), "*"))
		if err == nil && len(left) > 0 {
			n.Running(n.ctx, nil) // as each minute
		}
		return err == nil && len(left) == 0
	})
	got := n.asked(first)
	test.Eq(t, "DEL", got[len(got)-1], test.Sprintf("the plugin was asked %q", got))
	out, err := n.inA.Try("link show dev rdma0")
	test.Error(t, err, test.Sprintf("the pod has got %s", out))
}
