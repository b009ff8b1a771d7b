package vm_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// devices are what the driver of a node has published.
func (b *bed) devices(ctx context.Context, node string) (devices []resourceapi.Device, err error) {
	list, err := b.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=rdma.dev,spec.nodeName=" + node,
	})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		devices = append(devices, s.Spec.Devices...)
	}
	return devices, nil
}

// apply applies a manifest of the checkout.
func (b *bed) apply(t *testing.T, path string) {
	t.Helper()
	b.kubectl(t, "apply", "--filename", path)
}

func (b *bed) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := b.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	return p
}

// ready waits until the containers of a pod run, and returns the pod's node.
func (b *bed) ready(t *testing.T, name string) *memberNode {
	t.Helper()
	b.eventually(t, "pod "+name+" is ready", 5*time.Minute, func() error {
		p := b.pod(t, name)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		events, err := b.events(t.Context(), "involvedObject.name="+name)
		return fmt.Errorf("%s on %q: %v, %w", p.Status.Phase, p.Spec.NodeName, events, err)
	})
	node := b.pod(t, name).Spec.NodeName
	return b.members[slices.IndexFunc(b.members, func(m *memberNode) bool { return m.name == node })]
}

// events are reason, object and message of the events that a field selector selects.
func (b *bed) events(ctx context.Context, selector string) (out []string, err error) {
	list, err := b.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	for _, e := range list.Items {
		out = append(out, fmt.Sprintf("%s %s/%s: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
	}
	return out, nil
}

// exec runs a script in the container of a pod that has one, and returns both outputs.
func (b *bed) exec(ctx context.Context, pod, script string) (string, error) {
	var out output
	err := b.stream(ctx, pod, script, &out)
	return out.String(), err
}

// stream is exec that writes both outputs as they come.
func (b *bed) stream(ctx context.Context, pod, script string, out *output) error {
	request := b.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Command: []string{"sh", "-c", script}, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(b.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: out}); err != nil {
		return fmt.Errorf("run %q in pod %s: %w: %s", script, pod, err, out)
	}
	return nil
}

// must is exec for a script that must succeed.
func (b *bed) must(t *testing.T, pod, script string) string {
	t.Helper()
	out, err := b.exec(t.Context(), pod, script)
	must.NoError(t, err)
	return out
}

// addresses are those of the pod's interfaces rdma0 and rdma1, by the claim's status.
func (b *bed) addresses(t *testing.T, pod string) (addresses [2]netip.Prefix) {
	t.Helper()
	name := b.pod(t, pod).Status.ResourceClaimStatuses[0].ResourceClaimName
	b.eventually(t, "status of claim "+*name, 2*time.Minute, func() error {
		c, err := b.client.ResourceV1().ResourceClaims("default").Get(t.Context(), *name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found := 0
		for _, d := range c.Status.Devices {
			if d.NetworkData == nil || len(d.NetworkData.IPs) != 1 {
				return fmt.Errorf("device %s has %v", d.Device, d.NetworkData)
			}
			rail := slices.Index([]string{"rdma0", "rdma1"}, d.NetworkData.InterfaceName)
			addresses[rail] = netip.MustParsePrefix(d.NetworkData.IPs[0])
			found++
		}
		if found != len(addresses) {
			return fmt.Errorf("it tells of %d devices", found)
		}
		return nil
	})
	return addresses
}

// packets is how many packets the node's soft-RoCE device of a rail has sent.
func (m *memberNode) packets(t *testing.T, rail int) int {
	t.Helper()
	said := m.run(t, "cat", "/sys/class/infiniband/"+railDevices[rail].Name+"/ports/1/hw_counters/sent_pkts")
	n, err := strconv.Atoi(strings.TrimSpace(said))
	must.NoError(t, err)
	return n
}

// converse runs a server in one pod until a client in another pod has succeeded. A server of one conversation starts
// again if its client did not hear the end of it, as may happen to an emulated one on a busy machine.
func (b *bed) converse(t *testing.T, server, serve, client, ask string) (served, asked string) {
	t.Helper()
	var said output
	ended := make(chan error, 1)
	start := func() { go func() { ended <- b.stream(t.Context(), server, serve, &said) }() }
	start()
	b.eventually(t, fmt.Sprintf("%s in pod %s", ask, client), 2*time.Minute, func() (err error) {
		if asked, err = b.exec(t.Context(), client, ask); err == nil {
			return nil
		}
		select {
		case failed := <-ended:
			start()
			return fmt.Errorf("%w; the server has ended, %v: %s", err, failed, &said)
		default:
			return fmt.Errorf("%w; the server says %s", err, &said)
		}
	})
	must.NoError(t, <-ended)
	return said.String(), asked
}
