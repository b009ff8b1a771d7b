package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// patience is how long a condition may take. The kubelet retries a failed Prepare
// after its sync frequency, which is 10 s here.
const patience = 60 * time.Second

// namespace is a namespace of one test; it goes with the test.
type namespace struct {
	t    *testing.T
	name string
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// newNamespace makes a namespace named after the test.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	name := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	n := &namespace{t, name[:min(len(name), 63)]}
	kubectl(t, "create", "namespace", n.name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tryKubectl("--namespace", n.name, "describe", "pods"))
			t.Log(driverLog())
		}
		// The devices must be free for the next test; the rest may take its time.
		n.kubectl("delete", "pods,resourceclaims", "--all", "--wait")
		kubectl(t, "delete", "namespace", n.name, "--wait=false")
	})
	eventually(t, "default service account", func() error {
		_, err := output("kubectl", "--namespace", n.name, "get", "serviceaccount", "default")
		return err
	})
	return n
}

// kubectl runs kubectl in the namespace.
func (n *namespace) kubectl(args ...string) string {
	n.t.Helper()
	return kubectl(n.t, append([]string{"--namespace", n.name}, args...)...)
}

// apply applies a manifest given as text.
func (n *namespace) apply(manifest string) {
	n.t.Helper()
	cmd := kube.Command(n.t.Context(), "kubectl", "--namespace", n.name, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := kube.Run(cmd); err != nil {
		n.t.Fatalf("apply: %v: %s\n%s", err, out, manifest)
	}
}

// example applies an example manifest as it is in the checkout.
func (n *namespace) example(name string) {
	n.t.Helper()
	n.apply(readFile(n.t, checkout.Example(name)))
}

func (n *namespace) ready(pods ...string) {
	n.t.Helper()
	for _, pod := range pods {
		n.kubectl("wait", "--for=condition=Ready", "pod/"+pod, "--timeout="+patience.String())
	}
}

// sh runs a script in a container and returns what it printed; its own failure is
// part of the answer.
func (n *namespace) sh(pod, container, script string) string {
	n.t.Helper()
	return strings.TrimSpace(n.kubectl("exec", pod, "-c", container, "--", "sh", "-c", "{ "+script+"; } 2>&1 || true"))
}

// event waits for an event on a pod whose message has all the words.
func (n *namespace) event(pod string, words ...string) {
	n.t.Helper()
	eventually(n.t, "event of pod "+pod, func() error {
		out, err := output("kubectl", "--namespace", n.name, "get", "events", "--field-selector", "involvedObject.name="+pod, "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			if containsAll(line, words) {
				return nil
			}
		}
		return fmt.Errorf("no event has all of %q:\n%s", words, out)
	})
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// claim is what the tests read of a ResourceClaim.
type claim struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		Allocation struct {
			Devices struct {
				Results []struct{ Request, Device, Pool string }
			}
		}
	}
}

// claims lists the claims of the namespace.
func (n *namespace) claims() []claim {
	n.t.Helper()
	var list struct{ Items []claim }
	if err := json.Unmarshal([]byte(n.kubectl("get", "resourceclaims", "-o", "json")), &list); err != nil {
		n.t.Fatal(err)
	}
	return list.Items
}

// spec is the path of the CDI spec of a claim.
func (c claim) spec() string { return "/var/run/cdi/rdma.dev-claim_" + c.Metadata.UID + ".json" }

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return inside(t, "kubectl", args...)
}

// inside runs a program in the cluster's namespaces.
func inside(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func output(name string, args ...string) (string, error) {
	return kube.Output(context.Background(), name, args...)
}

func tryKubectl(args ...string) string {
	out, err := output("kubectl", args...)
	if err != nil {
		return err.Error()
	}
	return out
}

func driverLog() string {
	return tryKubectl("--namespace", deploy.Namespace, "logs", "--all-containers", "--prefix", "--tail=60", "--selector=app.kubernetes.io/name="+deploy.Release)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: after %v still: %v", what, patience, err)
		}
		time.Sleep(100 * time.Millisecond) // between two looks at the condition
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pod writes the manifest of a pod with one container "app" that names a claim,
// from a template or by name ("resourceClaimName: x").
func pod(name, claimSource string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hca, %s}]
  containers:
  - name: app
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; while :; do sleep 1; done"]
    securityContext: {runAsUser: 1000}
    resources: {claims: [{name: hca}]}
`, name, claimSource)
}

// template writes a ResourceClaimTemplate for one HCA, with parameters for the
// driver if there are any.
func template(name, parameters string) string {
	config := ""
	if parameters != "" {
		config = "\n      config: [{opaque: {driver: rdma.dev, parameters: " + parameters + "}}]"
	}
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s}
spec:
  spec:
    devices:
      requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev}}]%s
---`, name, config)
}
