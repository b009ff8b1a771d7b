package testbed

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// Namespace is a namespace of one test; it goes with the test.
type Namespace struct {
	*Bed
	Name string
	// Unusable means that the test has containers that cannot use their HCAs. All others must cause no such event.
	Unusable bool
	t        *testing.T
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace makes a namespace named after the test.
func (b *Bed) Namespace(t *testing.T) *Namespace {
	t.Helper()
	name := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	n := &Namespace{Bed: b, Name: name[:min(len(name), 63)], t: t}
	b.Kubectl(t, "create", "namespace", n.Name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.Output("kubectl", "--namespace", n.Name, "describe", "pods"))
			t.Log(tail(b.DriverLog(), 60))
		}
		// A wrong warning is the worst fault of the hook's checks.
		found, _ := b.Output("kubectl", "--namespace", n.Name, "get", "events", "--field-selector=reason=RDMANotUsable")
		if !n.Unusable && strings.Contains(found, "RDMANotUsable") {
			t.Errorf("containers that can use their HCAs have events:\n%s", found)
		}
		// The devices must be free for the next test; the rest may take its time.
		n.Kubectl("delete", "jobs,daemonsets,deployments,pods,resourceclaims", "--all", "--grace-period=1", "--wait")
		b.Kubectl(t, "delete", "namespace", n.Name, "--wait=false")
	})
	Eventually(t, "default service account", func() error {
		_, err := b.Output("kubectl", "--namespace", n.Name, "get", "serviceaccount", "default")
		return err
	})
	return n
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Kubectl runs kubectl in the namespace.
func (n *Namespace) Kubectl(args ...string) string {
	n.t.Helper()
	return n.Bed.Kubectl(n.t, append([]string{"--namespace", n.Name}, args...)...)
}

// Apply applies a manifest given as text.
func (n *Namespace) Apply(manifest string) {
	n.t.Helper()
	out, err := n.KubectlInput(n.t, manifest, "--namespace", n.Name, "apply", "-f", "-")
	must.NoError(n.t, err, must.Sprintf("apply: %s\n%s", out, manifest))
}

// Example applies an example manifest as it is in the checkout.
func (n *Namespace) Example(name string) {
	n.t.Helper()
	n.Apply(ReadFile(n.t, n.Checkout.Example(name)))
}

// Ready waits until pods are ready; for many of them, longer.
func (n *Namespace) Ready(pods ...string) {
	n.t.Helper()
	timeout := Patience + time.Duration(len(pods))*2*time.Second
	args := []string{"wait", "--for=condition=Ready", "--timeout=" + timeout.String()}
	for _, pod := range pods {
		args = append(args, "pod/"+pod)
	}
	n.Kubectl(args...)
}

// Running starts a pod with an HCA of its own and returns the claim.
func (n *Namespace) Running(pod string) Claim {
	n.t.Helper()
	n.Apply(Template("one", "hca.rdma.dev", "") + Pod(pod, "resourceClaimTemplateName: one"))
	n.Ready(pod)
	return n.ClaimOf(pod)
}

// RestartContainer ends the first process of a pod's container, and waits until the
// kubelet has started it again.
func (n *Namespace) RestartContainer(pod string) {
	n.t.Helper()
	n.Terminate(pod)
	n.Restarted(pod)
}

// Terminate asks the first process of a pod's container to end.
func (n *Namespace) Terminate(pod string) {
	n.t.Helper()
	// A kubelet that has just started does not know its pods yet.
	Eventually(n.t, "access to pod "+pod, func() error {
		_, err := n.Output("kubectl", "--namespace", n.Name, "exec", pod, "--", "true")
		return err
	})
	if _, err := n.Output("kubectl", "--namespace", n.Name, "exec", pod, "--", "kill", "-TERM", "1"); err != nil {
		n.t.Log(err) // the session may end with the container, before it has said that it succeeded
	}
}

// Restarted waits until the kubelet has started a pod's container for the second time.
func (n *Namespace) Restarted(pod string) {
	n.t.Helper()
	n.Kubectl("wait", "pod/"+pod, "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "--timeout="+Patience.String())
	n.Ready(pod)
}

// Delete deletes pods and waits until they are gone.
func (n *Namespace) Delete(pods ...string) {
	n.t.Helper()
	n.Kubectl(append([]string{"delete", "pod", "--wait"}, pods...)...)
}

// Sh runs a script in a container and returns what it printed; its own failure is
// part of the answer.
func (n *Namespace) Sh(pod, container, script string) string {
	n.t.Helper()
	return strings.TrimSpace(n.Kubectl("exec", pod, "-c", container, "--", "sh", "-c", "{ "+script+"; } 2>&1 || true"))
}

// Event waits for an event on a pod whose message has all the words.
func (n *Namespace) Event(pod string, words ...string) {
	n.t.Helper()
	Eventually(n.t, "event of pod "+pod, func() error {
		out, err := n.Output("kubectl", "--namespace", n.Name, "get", "events", "--field-selector", "involvedObject.name="+pod, "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if ContainsAll(line, words) {
				return nil
			}
		}
		return fmt.Errorf("no event has all of %q:\n%s", words, out)
	})
}

// Pending waits until the scheduler has said that it finds no devices for a pod.
func (n *Namespace) Pending(pod string) {
	n.t.Helper()
	n.Event(pod, "cannot allocate all claims")
	test.Eq(n.t, "", n.Kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"),
		test.Sprintf("pod %s is on", pod))
}

// Claim is what the tests read of a ResourceClaim.
type Claim struct {
	Metadata struct {
		Name, UID   string
		Annotations map[string]string
	}
	Status struct {
		Allocation  struct{ Devices struct{ Results []Result } }
		ReservedFor []struct{ Resource, Name string }
		Devices     []struct {
			Driver, Pool, Device, ShareID string
			Data                          struct{ HCAs []struct{ IBDev string } }
		}
	}
}

// Result is a device of a claim.
type Result struct {
	Request, Driver, Device, Pool, ShareID string
	AdminAccess                            bool
	ConsumedCapacity                       map[string]string
}

// Claims lists the claims of the namespace.
func (n *Namespace) Claims() []Claim {
	n.t.Helper()
	var list struct{ Items []Claim }
	must.NoError(n.t, json.Unmarshal([]byte(n.Kubectl("get", "resourceclaims", "-o", "json")), &list))
	return list.Items
}

// ClaimOf is the only claim that a pod has reserved.
func (n *Namespace) ClaimOf(pod string) Claim {
	n.t.Helper()
	var found []Claim
	for _, c := range n.Claims() {
		for _, r := range c.Status.ReservedFor {
			if r.Name == pod {
				found = append(found, c)
			}
		}
	}
	must.Eq(n.t, 1, len(found), must.Sprintf("pod %s", pod))
	return found[0]
}

// Told waits until the status of a pod's claim names its first device as the node does.
func (n *Namespace) Told(pod string) {
	n.t.Helper()
	Eventually(n.t, "status of the claim of pod "+pod, func() error {
		c := n.ClaimOf(pod)
		r, told := c.Results()[0], c.Status.Devices
		if len(told) != len(c.Results()) || len(told[0].Data.HCAs) == 0 {
			return fmt.Errorf("status.devices: %+v", told)
		}
		want := n.HostHCA(n.t, r.Device).IBDev
		if d := told[0]; d.Driver != r.Driver || d.Pool != r.Pool || d.Device != r.Device || d.ShareID != r.ShareID || d.Data.HCAs[0].IBDev != want {
			return fmt.Errorf("status.devices: %+v, want %+v called %s", told, r, want)
		}
		return nil
	})
}

// Results are the devices of the claim.
func (c Claim) Results() []Result { return c.Status.Allocation.Devices.Results }

// Spec is the path of the CDI spec of a claim.
func (c Claim) Spec() string { return "/var/run/cdi/rdma.dev-claim_" + c.Metadata.UID + ".json" }

// Record is the path of what the driver keeps of a claim.
func (b *Bed) Record(c Claim) string { return b.StateDir("claims", c.Metadata.UID+".json") }
