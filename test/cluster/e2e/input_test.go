package e2e

import (
	"strings"
	"testing"
)

// TestBadInput: what a user can get wrong in a claim reaches the events of the pod,
// with the claim, the field and what to do, and other pods go on.
func TestBadInput(t *testing.T) {
	n := newNamespace(t)
	bad := map[string]struct {
		parameters string
		want       []string
	}{
		"unknown-field":  {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlok: unlimited}`, []string{`unknown field "memlok"`}},
		"bad-memlock":    {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: lots}`, []string{"memlock", "lots", "quantity"}},
		"umad-by-user":   {`{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, nodes: [verbs, mad]}`, []string{"nodes[1]", "mad", "DeviceClass"}},
		"class-by-user":  {`{apiVersion: rdma.dev/v1alpha1, kind: HCAClassConfig, allow: {nodes: [mad]}}`, []string{"HCAClassConfig", "DeviceClass", "HCAConfig"}},
		"unknown-kind":   {`{apiVersion: rdma.dev/v1alpha1, kind: NICConfig}`, []string{"NICConfig", "HCAConfig"}},
		"future-version": {`{apiVersion: rdma.dev/v9, kind: HCAConfig}`, []string{"rdma.dev/v1alpha1"}},
	}
	for name, c := range bad {
		n.apply(template(name, c.parameters) + pod(name, "resourceClaimTemplateName: "+name))
	}
	n.apply(template("good", "") + pod("good", "resourceClaimTemplateName: good"))
	n.ready("good")
	for name, c := range bad {
		n.event(name, append(c.want, n.name+"/"+name+"-hca")...)
	}
}

// TestFullDirectory: a CDI directory that cannot be written to is named in the pod's
// event, and the pod starts when it can be again.
func TestFullDirectory(t *testing.T) {
	n := newNamespace(t)
	inside(t, "chattr", "+i", "/var/run/cdi")
	t.Cleanup(func() { _, _ = output("chattr", "-i", "/var/run/cdi") })
	n.apply(template("one", "") + podManifest("app"))
	n.event("app", n.name+"/app-hca", "/var/run/cdi", "writable CDI directory")
	inside(t, "chattr", "-i", "/var/run/cdi")
	n.ready("app")
	c := n.claims()[0]
	n.expect("app", "app", c.Status.Allocation.Devices.Results[0].Device)
}

// TestDriverIsUnprivileged: the driver's process has no capability.
func TestDriverIsUnprivileged(t *testing.T) {
	status := inside(t, "sh", "-c", "cat /proc/$(pgrep -x dra-driver)/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("the driver's process lacks %q:\n%s", want, status)
		}
	}
}
