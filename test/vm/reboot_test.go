package vm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// reboot: a node loses power, and boots again with its disk. Kubelet and containerd start its pod again: the same pod
// and claim, in a new sandbox. The pod has its HCAs and interfaces again, with addresses of the node's block. Nothing
// is left of the sandbox before. In the end the test deletes both pods, and their claims end.
func (p pair) reboot(t *testing.T) {
	needs.Long(t, "a boot and a join of a node, 45 s; TestReboot of pkg/dra/attach shows what the driver does")
	const rebooted = 1
	n, pod := p.nodes[rebooted], p.pods[rebooted]
	before, bootID := p.incarnation(t, pod), n.bootID(t)
	t.Logf("before: %s has %v", pod, p.interfaces(t, pod))
	n.run(t, "sync")
	began := time.Now()
	must.ErrorIs(t, n.cutPower(nil), context.Canceled)
	n.boot(t, p.machine)
	p.awaitNode(t, n)
	t.Logf("%s is back after %s", n.name, time.Since(began).Round(time.Second))
	must.NotEq(t, bootID, n.bootID(t), must.Sprintf("%s has boot ID", n.name))
	p.restarted(t, pod, before)
	t.Logf("%s runs again after %s", pod, time.Since(began).Round(time.Second))
	for i := range p.pods {
		p.ownAddresses(t, i)
	}
	for rail := range p.rails {
		to, from := p.addresses(t, p.pods[0])[rail].Addr(), p.addresses(t, p.pods[1])[rail].Addr()
		p.counted(t, rail, func() { p.ping(t, to.String(), from.String()) })
		p.counted(t, rail, func() {
			p.converse(t, p.pods[0], fmt.Sprintf(write, rail, ""), p.pods[1], fmt.Sprintf(write, rail, to))
		})
	}
	p.onlyRunningSandboxes(t, n)
	p.noRepeatedError(t, n)
	p.end(t)
}

func (m *memberNode) bootID(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "cat", "/proc/sys/kernel/random/boot_id"))
}

// incarnation identifies a pod, its claim and its container. Only the container changes at a reboot.
type incarnation struct {
	pod, claim            types.UID
	allocation, container string
}

func (p pair) incarnation(t *testing.T, name string) incarnation {
	t.Helper()
	pod := p.pod(t, name)
	claim := *pod.Status.ResourceClaimStatuses[0].ResourceClaimName
	c, err := p.client.ResourceV1().ResourceClaims(pod.Namespace).Get(t.Context(), claim, metav1.GetOptions{})
	must.NoError(t, err)
	allocation, err := json.Marshal(c.Status.Allocation)
	must.NoError(t, err)
	return incarnation{pod.UID, c.UID, string(allocation), pod.Status.ContainerStatuses[0].ContainerID}
}

// restarted waits until a pod is ready with another container, and wants it to be the same pod with the same claim and
// devices.
func (p pair) restarted(t *testing.T, pod string, before incarnation) {
	t.Helper()
	var now incarnation
	p.eventually(t, "pod "+pod+" starts again", 10*time.Minute, func() error {
		now = p.incarnation(t, pod)
		status := p.pod(t, pod).Status.ContainerStatuses[0]
		if now.container != before.container && status.Ready && status.RestartCount > 0 {
			return nil
		}
		events, err := p.events(t.Context(), "involvedObject.name="+pod)
		return fmt.Errorf("its container is %+v: %v, %w", status, events, err)
	})
	now.container = before.container
	test.EqOp(t, before, now, test.Sprintf("after the reboot pod %s and its claim", pod))
}

var inet = regexp.MustCompile(`inet (\S+)`)

// interfaces are the addresses of rdma0 and rdma1, as the pod sees them.
func (p pair) interfaces(t *testing.T, pod string) (all [2]netip.Prefix) {
	t.Helper()
	for rail := range all {
		said := p.must(t, pod, fmt.Sprintf("ip -4 addr show dev rdma%d", rail))
		found := inet.FindAllStringSubmatch(said, -1)
		must.Eq(t, 1, len(found),
			must.Sprintf("interface rdma%d of pod %s has not one address: %s", rail, pod, said))
		all[rail] = netip.MustParsePrefix(found[0][1])
	}
	return all
}

// record is what the test reads of the driver's record of an interface.
type record struct {
	BootID string
	Pod    struct{ UID types.UID }
	Given  []netip.Prefix
}

// records are the driver's records of interfaces on a node. No other record has an address of the node's blocks.
func (m *memberNode) records(t *testing.T) (all []record) {
	t.Helper()
	const dir = "/var/lib/kubelet/plugins/rdma.dev/interfaces"
	decoder := json.NewDecoder(strings.NewReader(m.run(t, "find", dir, "-name", "*.json", "-exec", "cat", "{}", "+")))
	for {
		var r record
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.NoError(t, err)
		all = append(all, r)
	}
}

// ownAddresses waits until the pod, the status of its claim and the driver's records agree on the pod's addresses. They
// must be of the node's blocks, and no other address of these may be in use.
func (p pair) ownAddresses(t *testing.T, i int) {
	t.Helper()
	n, pod := p.nodes[i], p.pods[i]
	has := p.interfaces(t, pod)
	number := slices.Index(p.members, n)
	for rail, address := range has {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 79, byte(rail), byte(64 * number)}), 26)
		test.True(t, block.Contains(address.Addr()),
			test.Sprintf("interface rdma%d of pod %s has %s, and %s has the block %s", rail, pod, address, n.name, block))
	}
	bootID, uid := n.bootID(t), p.pod(t, pod).UID
	p.eventually(t, "status and records of "+pod, 3*time.Minute, func() error {
		var recorded []netip.Prefix
		records := n.records(t)
		for _, r := range records {
			if r.BootID == bootID && r.Pod.UID == uid {
				recorded = append(recorded, r.Given...)
			}
		}
		slices.SortFunc(recorded, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		if len(records) != len(has) || !slices.Equal(recorded, has[:]) {
			return fmt.Errorf("the pod has %v, and the records are %+v", has, records)
		}
		if status := p.addresses(t, pod); status != has {
			return fmt.Errorf("the pod has %v, and the claim says %v", has, status)
		}
		return nil
	})
	t.Logf("pod %s has %v", pod, has)
}

// onlyRunningSandboxes waits until CNI's addresses on the node are those of running sandboxes alone.
func (p pair) onlyRunningSandboxes(t *testing.T, m *memberNode) {
	t.Helper()
	p.eventually(t, "CNI's addresses on "+m.name, 3*time.Minute, func() error {
		tasks := strings.Fields(m.run(t, "ctr", "tasks", "ls", "-q"))
		owners := strings.Fields(m.run(t, "sh", "-c", "head -q -n 1 /var/lib/cni/networks/cluster/10.*"))
		for _, sandbox := range owners {
			if !slices.Contains(tasks, sandbox) {
				return fmt.Errorf("sandbox %s has one and does not run", sandbox)
			}
		}
		return nil
	})
}

// noRepeatedError wants the driver of a node to have logged each error once at most since it started.
func (p pair) noRepeatedError(t *testing.T, n *memberNode) {
	t.Helper()
	pods := p.client.CoreV1().Pods(deploy.Namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%s has %d drivers: %v", n.name, len(list.Items), err)
	}
	log, err := pods.GetLogs(list.Items[0].Name, &corev1.PodLogOptions{Container: "driver"}).DoRaw(t.Context())
	must.NoError(t, err)
	seen := map[string]int{}
	for line := range strings.Lines(string(log)) {
		if _, message, ok := strings.Cut(line, "] "); ok && line[0] == 'E' {
			seen[message]++
			t.Logf("the driver says %s", line)
		}
	}
	for message, times := range seen {
		test.LessEq(t, 1, times, test.Sprintf("the driver says %d times %s", times, message))
	}
	if t.Failed() {
		t.Logf("the driver of %s says\n%s", n.name, log)
	}
}

// end deletes the pods, and waits until their claims and addresses are gone.
func (p pair) end(t *testing.T) {
	t.Helper()
	for _, pod := range p.pods {
		must.NoError(t, p.client.CoreV1().Pods("default").Delete(t.Context(), pod, metav1.DeleteOptions{}))
	}
	p.eventually(t, "the claims end", 5*time.Minute, func() error {
		claims, err := p.client.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(claims.Items) > 0 {
			err = fmt.Errorf("there are %d", len(claims.Items))
		}
		return err
	})
	for _, n := range p.nodes {
		p.eventually(t, "the records of "+n.name+" end", 2*time.Minute, func() error {
			if records := n.records(t); len(records) > 0 {
				return fmt.Errorf("there are %+v", records)
			}
			return nil
		})
	}
}
