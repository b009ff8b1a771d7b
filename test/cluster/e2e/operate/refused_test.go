package operate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

const policyHeader = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"

// replaceFile replaces the driver's policy, as somebody does who does not ask the chart's schema.
func replaceFile(t *testing.T, text string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"config.yaml": text}})
	must.NoError(t, err)
	bed.Kubectl(t, "--namespace", deploy.Namespace, "patch", "configmap", deploy.Release, "--type=merge", "-p", string(patch))
}

// TestRefusedStart: the node's only driver starts with a bad file. It restores and unprepares the claims that it finds,
// offers nothing else, and says why. When the file is right, it offers everything again, without a restart.
func TestRefusedStart(t *testing.T) {
	bed.Configure(t, "metrics: {enabled: true, bindAddress: 127.0.0.1:9485}\n"+testbed.HGXValues)
	n := bed.Namespace(t)
	held, ends := n.Running("held"), n.Running("ends")
	all := len(bed.Devices(t))
	good := bed.Kubectl(t, "--namespace", deploy.Namespace, "get", "configmap", deploy.Release, "-o", `jsonpath={.data.config\.yaml}`)
	t.Cleanup(func() {
		if t.Failed() {
			replaceFile(t, good)
		}
	})
	bed.StopDriver(t)
	replaceFile(t, policyHeader+"rules: [{name: a, publish: everyone}]\n")
	for _, c := range []testbed.Claim{held, ends} {
		bed.Inside(t, "rm", c.Spec())
	}
	n.Kubectl("delete", "pod", "ends", "--wait=false")
	bed.LetDriverStart(t)

	testbed.Eventually(t, "restored spec", func() error {
		_, err := bed.Output("test", "-e", held.Spec())
		return err
	})
	n.Kubectl("wait", "--for=delete", "pod/ends", "--timeout="+testbed.Patience.String())
	bed.Gone(t, bed.Record(ends))
	device := held.Results()[0].Device
	testbed.Eventually(t, "publication of the held device alone", func() error {
		if devices := bed.Devices(t); len(devices) != 1 ||
			!strings.Contains(fmt.Sprint(devices[device].Taints), "rdma.dev/draining") {
			return fmt.Errorf("published are %v", devices)
		}
		return nil
	})
	n.Apply(testbed.Template("new", "hca.rdma.dev", `{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig}`) + testbed.Pod("new", "resourceClaimTemplateName: new"))
	n.Pending("new")
	nodeEvent(t, "RDMAConfigurationRefused", "rules[0].publish", "offers nothing to new claims")
	metric(t, "rdma_driver_configuration_refused 1")
	testbed.Eventually(t, "a driver that is alive and not ready", func() error { // the startup probe has its own period
		pod := bed.Kubectl(t, "--namespace", deploy.Namespace, "get", "pods", "--selector=app.kubernetes.io/name="+deploy.Release, "-o",
			"jsonpath={range .items[*].status.containerStatuses[*]}{.ready} {.started} {.restartCount}{end}")
		if pod != "false true 0" {
			return fmt.Errorf("it is %q (ready, started, restarts)", pod)
		}
		return nil
	})

	replaceFile(t, good)
	n.Ready("new")
	testbed.Eventually(t, "publication of all devices", func() error {
		if devices := bed.Devices(t); len(devices) != all || len(devices[device].Taints) > 0 {
			return fmt.Errorf("%d devices are published, want %d; that of the claim is %v", len(devices), all, devices[device])
		}
		return nil
	})
	bed.Kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", testbed.DaemonSet, "--timeout="+testbed.Patience.String())
	nodeEvent(t, "RDMAConfigurationUsed", "is in force")
	metric(t, "rdma_driver_configuration_refused 0")
}

// nodeEvent waits for an event of the node whose message has all the words.
func nodeEvent(t *testing.T, reason string, words ...string) {
	t.Helper()
	testbed.Eventually(t, "event "+reason, func() error {
		out, err := bed.Output("kubectl", "get", "events", "--all-namespaces", "--field-selector=reason="+reason+",involvedObject.kind=Node",
			"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		if err == nil && !testbed.ContainsAll(out, words) {
			err = fmt.Errorf("no event has all of %q:\n%s", words, out)
		}
		return err
	})
}

// metric waits until the driver has a metric with a value.
func metric(t *testing.T, line string) {
	t.Helper()
	testbed.Eventually(t, line, func() error {
		out, err := bed.Output("busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:9485/metrics")
		if err == nil && !strings.Contains(out, "\n"+line+"\n") {
			err = fmt.Errorf("it is not among %d bytes of metrics", len(out))
		}
		return err
	})
}

// TestPolicyTest: kubectl rdma policy test asks the driver by the real kubectl and API server, with the rights that its
// document names and no others.
func TestPolicyTest(t *testing.T) {
	plugin := bed.Plugin()
	n := bed.Namespace(t)
	held := n.Running("held")
	_, rights, _ := strings.Cut(testbed.ReadFile(t, bed.Checkout.Path("docs", "kubectl-rdma.md")), "## Rights\n")
	roles := strings.Split(rights, "```yaml\n")[1:]
	must.Eq(t, 2, len(roles), must.Sprint("roles in the document"))
	for i, binding := range []string{"clusterrolebinding/kubectl-rdma", "rolebinding/kubectl-rdma-policy"} {
		manifest, _, _ := strings.Cut(roles[i], "```")
		out, err := bed.KubectlInput(t, manifest, "create", "-f", "-")
		must.NoError(t, err, must.Sprintf("create the role: %s", out))
		kind, name, _ := strings.Cut(binding, "/")
		role := strings.TrimSuffix(kind, "binding")
		args := []string{"create", kind, name, "--" + role + "=" + name, "--user=jane", "--namespace=" + deploy.Namespace}
		t.Cleanup(func() {
			bed.Kubectl(t, "delete", kind+"/"+name, role+"/"+name, "--namespace="+deploy.Namespace)
		})
		if kind == "clusterrolebinding" {
			args = args[:len(args)-1]
		}
		bed.Kubectl(t, args...)
	}
	test := func(rules string) (string, error) {
		file := t.TempDir() + "/new.yaml"
		must.NoError(t, os.WriteFile(file, []byte(policyHeader+rules), 0o644))
		cmd := bed.Command(t.Context(), plugin.Path, "policy", "test", "-f", file, "-o", "wide", "--as=jane")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		err := bed.Run(cmd)
		return out.String(), err
	}
	before := bed.Devices(t)
	claim := n.Name + "/" + held.Metadata.Name
	for rules, want := range map[string][]string{
		"rules: [{name: all, publish: none}]\n": {
			" 1 device, now ", " gone, 1 changed\n", "taint rdma.dev/draining: none -> NoSchedule\n", "claims " + claim + ": they keep it until they end\n",
		},
		"rules: [{name: all, attributes: {tier: {string: gold}}}]\n": {"1 new, 1 gone, 8 changed\n", "tier: none -> gold\n"},
		"rules: [{name: all, rails: 99}]\n": {
			"the policy does not apply on this node: rule all numbers 99 cards, and it matches ",
			"error: the policy is not right for 1 of 1 node",
		},
		"rules: [{name: all, publish: everyone}]\n": {
			`read policy "-": line 3: rules[0].publish: want none`, "refuses the policy",
		},
	} {
		out, err := test(rules)
		if (err != nil) != strings.Contains(want[1], "the policy") || !testbed.ContainsAll(out, want) {
			t.Errorf("%s: %v\n%s\nwant %q", rules, err, out, want)
		}
	}
	if after := bed.Devices(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("published were\n%v\nand are\n%v", before, after)
	}
	bed.Kubectl(t, "delete", "rolebinding/kubectl-rdma-policy", "--namespace="+deploy.Namespace)
	if out, err := test(""); err == nil || !strings.Contains(out, `User "jane" cannot create resource "pods/exec"`) {
		t.Errorf("without the right: %v\n%s", err, out)
	}
	bed.Kubectl(t, "create", "rolebinding", "kubectl-rdma-policy", "--role=kubectl-rdma-policy", "--user=jane", "--namespace="+deploy.Namespace)
}
