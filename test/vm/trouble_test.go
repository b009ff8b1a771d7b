package vm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// long says whether the tests may take long.
func long(t *testing.T) bool {
	t.Helper()
	if os.Getenv("TEST_LONG") == "" {
		t.Log("without TEST_LONG nothing goes wrong here")
		return false
	}
	return true
}

// tainted wants the device of a rail to have a taint, or not to have one.
func (p pair) tainted(t *testing.T, n *memberNode, rail int, want bool) {
	t.Helper()
	what := fmt.Sprintf("%s of %s has a taint: %t", railDevices[rail].Name, n.name, want)
	eventually(t, what, 2*time.Minute, func() error {
		devices, err := p.devices(t.Context(), n.name)
		if err != nil {
			return err
		}
		for _, d := range devices {
			if *d.Attributes["ibdev"].StringValue != railDevices[rail].Name {
				continue
			}
			down := func(t resourceapi.DeviceTaint) bool { return t.Key == "rdma.dev/port-down" }
			if slices.ContainsFunc(d.Taints, down) != want {
				return fmt.Errorf("it has %v", d.Taints)
			}
			return nil
		}
		return errors.New("it is not published")
	})
}

// health is what the kubelet says of the devices of a pod.
func (p pair) health(t *testing.T, pod string) (out string) {
	t.Helper()
	for _, c := range p.pod(t, pod).Status.ContainerStatuses {
		for _, a := range c.AllocatedResourcesStatus {
			for _, r := range a.Resources {
				out += string(r.Health)
				if r.Message != nil {
					out += ": " + *r.Message
				}
				out += "\n"
			}
		}
	}
	return out
}

// ours are the driver's events but for those of the claims' networks.
func (p pair) ours(t *testing.T) []string {
	t.Helper()
	events, err := p.events(t.Context(), "source=rdma.dev")
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// carrier: the link of one HCA of one node fails at its port. Taint, the pod's status and events name HCA and pod,
// and nothing is said of the other node. Then all is well again, and the pods talk.
func (p pair) carrier(t *testing.T) {
	const rail = 0
	n, pod, device := p.nodes[0], p.pods[0], railDevices[rail].Name
	if err := n.rails[rail].Carrier(false); err != nil {
		t.Fatal(err)
	}
	p.tainted(t, n, rail, true)
	eventually(t, "the status of pod "+pod+" names "+device, 2*time.Minute, func() error {
		if got := p.health(t, pod); !strings.Contains(got, "Unhealthy: "+device) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	eventually(t, "an event of pod "+pod+" names "+device, 2*time.Minute, func() error {
		events := p.ours(t)
		if !slices.ContainsFunc(events, func(e string) bool {
			return strings.HasPrefix(e, "RDMAPortDown Pod/"+pod+":") && strings.Contains(e, device)
		}) {
			return fmt.Errorf("there are %q", events)
		}
		return nil
	})
	t.Logf("pod status: %s", p.health(t, pod))
	for _, e := range p.ours(t) {
		t.Log("event: ", e)
		other := strings.Contains(e, "/"+p.pods[1]+":") || strings.Contains(e, "/"+p.nodes[1].name+":")
		if other && strings.HasPrefix(e, "RDMAPortDown") {
			t.Errorf("a false event: %s", e)
		}
	}
	if err := n.rails[rail].Carrier(true); err != nil {
		t.Fatal(err)
	}
	p.tainted(t, n, rail, false)
	to, from := p.addresses(t, p.pods[0])[rail].Addr(), p.addresses(t, p.pods[1])[rail].Addr()
	p.ping(t, to.String(), from.String())
}

// begin has the pods talk on a rail until the test ends. What exec begins goes on without the kubelet's stream. The
// client has the lowest priority: it never waits, and each guest has one processor.
func (p pair) begin(t *testing.T, rail int) {
	t.Helper()
	to, from := p.addresses(t, p.pods[0])[rail].Addr(), p.addresses(t, p.pods[1])[rail].Addr()
	const start = `pidof rping >/dev/null && exit
renice -n 19 $$ >/dev/null
(setsid rping %s; echo "status $?") >/tmp/said 2>&1 &`
	p.must(t, p.pods[0], fmt.Sprintf(start, fmt.Sprintf("-s -P -a %s", to)))
	before := p.nodes[1].packets(t, rail)
	eventually(t, "a long conversation begins", 2*time.Minute, func() error {
		p.must(t, p.pods[1], fmt.Sprintf(start, fmt.Sprintf("-c -a %s -I %s", to, from)))
		if now := p.nodes[1].packets(t, rail); now < before+100 {
			return fmt.Errorf("%d packets were sent", now-before)
		}
		return nil
	})
	t.Cleanup(func() {
		for _, pod := range p.pods {
			_, _ = p.exec(context.WithoutCancel(t.Context()), pod, "killall rping")
		}
	})
}

// flows wants the same conversation to go on.
func (p pair) flows(t *testing.T, rail int) {
	t.Helper()
	before := p.nodes[1].packets(t, rail)
	eventually(t, "the conversation goes on", 2*time.Minute, func() error {
		if now := p.nodes[1].packets(t, rail); now < before+100 {
			return fmt.Errorf("%d packets more", now-before)
		}
		said, err := p.exec(t.Context(), p.pods[1], "cat /tmp/said")
		if err == nil && strings.Contains(said, "status") {
			t.Fatalf("the job has ended: %s", said)
		}
		return err
	})
}

// cut: the network between the nodes fails, and no port does. The programs of the job say so, and the driver says
// nothing.
func (p pair) cut(t *testing.T) {
	const rail = 1
	p.begin(t, rail)
	before := p.ours(t)
	p.rails[rail].Cut(true)
	var said string
	eventually(t, "the job fails by itself", 5*time.Minute, func() (err error) {
		said, err = p.exec(t.Context(), p.pods[1], "cat /tmp/said")
		if err == nil && !strings.Contains(said, "status") {
			err = errors.New("it goes on")
		}
		return err
	})
	t.Logf("the job says %q", said)
	p.rails[rail].Cut(false)
	if now := p.ours(t); len(now) != len(before) {
		t.Errorf("the driver says %q, and said before %q", now, before)
	}
	p.tainted(t, p.nodes[0], rail, false)
	p.tainted(t, p.nodes[1], rail, false)
}

// goesOn: while pods talk the driver is updated and its process killed, and kubelet and containerd restart.
func (p pair) goesOn(t *testing.T) {
	const rail = 0
	p.begin(t, rail)
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"a kill of the driver", func() { p.nodes[0].run(t, "pkill", "-9", "-x", "dra-driver") }},
		{"a restart of kubelet", func() { p.nodes[0].restart(t, cluster.Kubelet) }},
		{"a restart of containerd", func() { p.nodes[1].restart(t, cluster.Containerd) }},
		{"a rolling update of the driver", func() {
			for _, args := range [][]string{{"rollout", "restart"}, {"rollout", "status", "--timeout=8m"}} {
				args = append(args, "--namespace", deploy.Namespace, "daemonset/"+deploy.Release)
				if out, err := p.Output(t.Context(), "kubectl", args...); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
		}},
	} {
		began := time.Now()
		change.do()
		p.flows(t, rail)
		t.Logf("after %s, which took %s, the job goes on", change.name, time.Since(began).Round(time.Second))
	}
}
