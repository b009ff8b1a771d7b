package vm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/member"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// bed is a cluster of guests, joined by switches: one for nodes and pods, and two rails with a soft-RoCE device of each
// node. The control plane and the tests are on this host.
type bed struct {
	*nodes
	machine    *vm.VM
	config     *rest.Config
	client     kubernetes.Interface
	management *vm.Switch
	rails      [2]*vm.Switch
	members    []*memberNode
	archives   []string // of images, beside those of driver and tools
}

// memberNode is a node of the bed.
type memberNode struct {
	name, agent string
	management  *vm.Port
	rails       [2]*vm.Port
	machine     vm.Cmd
	said        output
	boots       int
	powerOff    context.CancelCauseFunc
	ended       chan error
}

// The guests' devices: eth0 and the uplink eth1 lead nowhere else.
const managementDevice = "eth2"

var railDevices = []vm.Device{{Name: "rxm0", Netdev: "eth3"}, {Name: "rxm1", Netdev: "eth4"}}

// blockLabel has the number of a node's block of addresses.
const blockLabel = "node-restriction.kubernetes.io/rdma-block"

// railValues are values of the chart: pods get interfaces on both rails, with addresses that are unique in the cluster.
func railValues(t *testing.T) []string {
	values := []string{
		"config.publishInterval=0s", "network.enabled=true",
		"config.health.downAfter=0s", "config.health.upAfter=0s",
	}
	for rail, device := range railDevices {
		rule, ipam := fmt.Sprintf("config.rules[%d].", rail), fmt.Sprintf("config.ipam.rail-%d.", rail)
		values = append(values,
			fmt.Sprintf("%sname=rail-%d", rule, rail), fmt.Sprintf("%srail=%d", rule, rail),
			fmt.Sprintf("%sipam=rail-%d", rule, rail),
			fmt.Sprintf(`%sselectors[0].cel.expression=device.attributes["rdma.dev"].ibdev == %q`, rule, device.Name),
			fmt.Sprintf("%ssubnet=10.79.%d.0/24", ipam, rail), ipam+"perNode=26", ipam+"label="+blockLabel)
	}
	return values
}

// newBed starts a cluster of two guests with the driver's chart, and waits until the driver of each node has published
// its devices.
func newBed(t *testing.T, values ...string) *bed {
	t.Helper()
	return newBedWith(t, bedOptions{}, values...)
}

// bedOptions are what few tests need of a bed.
type bedOptions struct {
	archives []string // of images, beside those of driver and tools
	oneRail  bool     // all HCAs are at one switch
}

// newBedWith is newBed with options.
func newBedWith(t *testing.T, o bedOptions, values ...string) *bed {
	t.Helper()
	began := time.Now()
	v := vmtest.Open(t)
	coredns, err := cluster.BuildCoreDNS(t.Context(), cluster.Options{Progress: t.Output()})
	must.NoError(t, err)
	b := &bed{nodes: newNodes(t, v, 2, values), machine: v, archives: o.archives}
	if b.config, err = drivertest.ConfigOf(b.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		t.Fatal(err)
	}
	for _, sw := range []**vm.Switch{&b.management, &b.rails[0], &b.rails[1]} {
		*sw = newSwitch(t)
	}
	if o.oneRail {
		b.rails[1] = b.rails[0]
	}
	program := compileMember(t)
	for i := range b.kubelets {
		b.register(t, i)
		b.addMember(t, i, program, filepath.Join(coredns, "coredns"))
	}
	t.Logf("the control plane is there after %s", time.Since(began).Round(time.Second))
	for _, m := range b.members {
		b.awaitNode(t, m)
	}
	t.Logf("both drivers have published after %s", time.Since(began).Round(time.Second))
	return b
}

func newSwitch(t *testing.T) *vm.Switch {
	t.Helper()
	sw, err := vm.NewSwitch()
	must.NoError(t, err)
	t.Cleanup(func() {
		test.NoError(t, sw.Close())
	})
	return sw
}

// compileMember builds the program of the guests.
func compileMember(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "member")
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./cmd/member"}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile the program of the nodes: %v\n%s", err, out)
	}
	return program
}

// register makes the node before its kubelet does: its driver finds the number of its block when it starts.
func (b *bed) register(t *testing.T, i int) {
	t.Helper()
	name, _ := cluster.Node(i + 1)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{blockLabel: fmt.Sprint(i)}}}
	if _, err := b.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addMember starts the guest of node i+1. It ends with the test.
func (b *bed) addMember(t *testing.T, i int, program, coredns string) {
	t.Helper()
	m := &memberNode{agent: freeAddress(t), ended: make(chan error, 1)}
	m.name, _ = cluster.Node(i + 1)
	for p, sw := range map[**vm.Port]*vm.Switch{
		&m.management: b.management, &m.rails[0]: b.rails[0], &m.rails[1]: b.rails[1],
	} {
		port, err := sw.Port()
		must.NoError(t, err)
		*p = port
	}
	config, err := json.Marshal(member.Config{
		Number: i + 1, Nodes: len(b.kubelets), ControlPlane: b.Dir(),
		Images:  append([]string{b.image, b.machine.Tools()}, b.archives...),
		CoreDNS: coredns, Management: managementDevice,
	})
	must.NoError(t, err)
	uplink := b.uplink(i)
	uplink.Forwards[m.agent] = member.Port
	m.machine = vm.Cmd{
		Argv: []string{program, string(config)}, Dir: b.dir, Links: b.links(), Env: []string{guestCache}, Uplink: uplink,
		Shares: append(b.shares(b.machine), vm.Share{Path: filepath.Dir(program), ReadOnly: true}),
		Ports:  []*vm.Port{m.management, m.rails[0], m.rails[1]}, Devices: railDevices, Number: i + 1,
		Disk:     filepath.Join(t.TempDir(), "disk"),
		MemoryMB: 3072, Timeout: 2 * time.Hour, Stdout: &m.said, Stderr: &m.said,
	}
	for _, archive := range b.archives {
		m.machine.Shares = append(m.machine.Shares, vm.Share{Path: filepath.Dir(archive), ReadOnly: true})
	}
	m.boot(t, b.machine)
	t.Cleanup(func() {
		if !t.Failed() {
			m.cutPower(nil)
			return
		}
		t.Logf("%s: %v\nit said:\n%s", m.name, m.cutPower(vm.ErrFailed), m.said.String())
	})
	b.members = append(b.members, m)
}

// boot starts the guest.
func (m *memberNode) boot(t *testing.T, v *vm.VM) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	m.powerOff = cancel
	m.boots++
	go func() {
		code, err := v.Run(ctx, m.machine)
		m.ended <- fmt.Errorf("the guest has ended: status %d, %w", code, err)
	}()
}

// cutPower kills the guest, and waits for its end. With the reason vm.ErrFailed the guest's tasks are in the error.
func (m *memberNode) cutPower(why error) error {
	m.powerOff(why)
	return <-m.ended
}

// awaitNode waits until the node has joined since its last boot, and its driver has published its devices.
func (b *bed) awaitNode(t *testing.T, m *memberNode) {
	t.Helper()
	b.eventually(t, "the driver of "+m.name+" publishes", 12*time.Minute, func() error {
		if strings.Count(m.said.String(), "the node has joined") < m.boots {
			return errors.New("the node has not joined")
		}
		devices, err := b.devices(t.Context(), m.name)
		if err == nil && len(devices) < len(railDevices) {
			err = fmt.Errorf("it has published %d devices", len(devices))
		}
		return err
	})
}

// ask has the member's program do something.
func (m *memberNode) ask(t *testing.T, path string, body any, answer any) {
	t.Helper()
	data, err := json.Marshal(body)
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.agent+path, bytes.NewReader(data))
	must.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	must.NoError(t, err, must.Sprintf("ask %s", m.name))
	defer response.Body.Close()
	var said bytes.Buffer
	if _, err := said.ReadFrom(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("ask %s for %s: %s: %v: %s", m.name, path, response.Status, err, &said)
	}
	if answer == nil {
		return
	}
	must.NoError(t, json.Unmarshal(said.Bytes(), answer), must.Sprintf("%s answers %s", m.name, &said))
}

// run runs a command on the node, which must succeed.
func (m *memberNode) run(t *testing.T, argv ...string) string {
	t.Helper()
	var r member.Result
	m.ask(t, "/run", argv, &r)
	must.Eq(t, 0, r.Code, must.Sprintf("%s on %s: status %d\n%s", strings.Join(argv, " "), m.name, r.Code, r.Out))
	return r.Out
}

// restart restarts the kubelet or containerd of the node.
func (m *memberNode) restart(t *testing.T, component string) {
	t.Helper()
	m.ask(t, "/restart/"+component, nil, nil)
}

// output is what a guest prints, for several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// allRun fails the test if a guest has ended by itself, as with a panic of its kernel. Its console is in the error.
func (b *bed) allRun(t *testing.T) {
	t.Helper()
	for _, m := range b.members {
		select {
		case err := <-m.ended:
			m.ended <- err
			t.Fatalf("%s: %v", m.name, err)
		default:
		}
	}
}

// eventually waits for a condition, as long as all guests run.
func (b *bed) eventually(t *testing.T, what string, limit time.Duration, try func() error) {
	t.Helper()
	for start := time.Now(); ; {
		b.allRun(t)
		err := try()
		if err == nil {
			return
		}
		took := time.Since(start)
		must.LessEq(t, limit, took, must.Sprintf("%s: not within %s: %v", what, limit, err))
		time.Sleep(min(200*time.Millisecond+took/10, 2*time.Second))
	}
}
