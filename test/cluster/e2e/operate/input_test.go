package operate

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestBadInput: what a user can get wrong in a claim reaches the events of the pod,
// with the claim, the field and what to do, and other pods go on. The chart's policy
// would refuse most of it before (test/cluster/policies).
func TestBadInput(t *testing.T) {
	n := bed.Namespace(t)
	withoutPolicy(t, "claim-parameters.rdma.dev", testbed.Template("probe", "hca.rdma.dev", `{apiVersion: rdma.dev/v9, kind: HCAConfig}`))
	bad := map[string]struct {
		parameters string
		want       []string
	}{
		"unknown-field":  {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlok: unlimited}`, []string{`unknown field "memlok"`}},
		"bad-memlock":    {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: lots}`, []string{"memlock", "lots", "number of bytes"}},
		"umad-by-user":   {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, nodes: [verbs, mad]}`, []string{"nodes[1]", "mad", "DeviceClass"}},
		"class-by-user":  {`{apiVersion: rdma.dev/v1alpha1, kind: HCAClassConfig, allow: {nodes: [mad]}}`, []string{"HCAClassConfig", "DeviceClass", "HCAConfig"}},
		"unknown-kind":   {`{apiVersion: rdma.dev/v1alpha1, kind: NICConfig}`, []string{"NICConfig", "HCAConfig"}},
		"future-version": {`{apiVersion: rdma.dev/v9, kind: HCAConfig}`, []string{"rdma.dev/v1alpha1"}},
	}
	for name, c := range bad {
		n.Apply(testbed.Template(name, "hca.rdma.dev", c.parameters) + testbed.Pod(name, "resourceClaimTemplateName: "+name))
	}
	n.Apply(testbed.Template("good", "hca.rdma.dev", "") + testbed.Pod("good", "resourceClaimTemplateName: good"))
	n.Ready("good")
	for name, c := range bad {
		n.Event(name, append(c.want, n.Name+"/"+name+"-hca")...)
	}
}

// withoutPolicy has an admission policy deny nothing until the end of the test. The
// probe is an object that it would deny.
func withoutPolicy(t *testing.T, name, probe string) {
	t.Helper()
	become := func(action string, denies bool) {
		patch := `[{"op": "replace", "path": "/spec/validationActions", "value": ["` + action + `"]}]`
		bed.Kubectl(t, "patch", "validatingadmissionpolicybinding", name, "--type=json", "--patch", patch)
		testbed.Eventually(t, "policy "+name+" has become "+action, func() error {
			out, err := bed.KubectlInput(t, probe, "create", "--dry-run=server", "-f", "-")
			if (err != nil) != denies {
				return fmt.Errorf("the probe: %v: %s", err, out)
			}
			return nil
		})
	}
	become("Audit", false)
	t.Cleanup(func() { become("Deny", true) })
}

// TestFullDirectory: a CDI directory that cannot be written to is named in the pod's
// event, and the pod starts when it can be again. Meanwhile the container of another pod
// restarts.
func TestFullDirectory(t *testing.T) {
	n := bed.Namespace(t)
	before := n.Running("before")
	bed.Inside(t, "chattr", "+i", "/var/run/cdi")
	t.Cleanup(func() { _, _ = bed.Output("chattr", "-i", "/var/run/cdi") })
	n.Apply(testbed.PodFor("app", "one"))
	n.RestartContainer("before")
	n.Expect("before", "app", before.Results()[0].Device)
	n.Event("app", n.Name+"/app-hca", "/var/run/cdi", "writable CDI directory")
	bed.Inside(t, "chattr", "-i", "/var/run/cdi")
	n.Ready("app")
	c := n.ClaimOf("app")
	n.Expect("app", "app", c.Results()[0].Device)
}

// TestDriverIsUnprivileged: the driver's process has no capability.
func TestDriverIsUnprivileged(t *testing.T) {
	status := bed.Inside(t, "cat", "/proc/"+bed.DriverProcess(t)+"/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		test.StrContains(t, status, want, test.Sprint("the driver's process lacks"))
	}
}
