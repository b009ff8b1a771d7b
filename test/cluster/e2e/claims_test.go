package e2e

import "testing"

// TestRequests: a container that names one request of a claim gets that device and
// not the claim's others.
func TestRequests(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair}
spec:
  spec:
    devices:
      requests:
      - {name: left, exactly: {deviceClassName: hca.rdma.dev}}
      - {name: right, exactly: {deviceClassName: hca.rdma.dev}}
---
apiVersion: v1
kind: Pod
metadata: {name: requests}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hcas, resourceClaimTemplateName: pair}]
  securityContext: {runAsUser: 1000}
  containers:
  - name: left
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    resources: {claims: [{name: hcas, request: left}]}
  - name: right
    image: busybox:1.37
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    resources: {claims: [{name: hcas, request: right}]}
`)
	n.Ready("requests")
	for _, r := range n.Claims()[0].Results() {
		n.Expect("requests", r.Request, r.Device)
	}
}

// TestFirstAvailable: the device of a subrequest reaches a container that names the
// request.
func TestFirstAvailable(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("first-available")
	n.Ready("first-available")
	r := n.Claims()[0].Results()[0]
	if r.Request != "nic/whole" {
		t.Errorf("request %q; the bundled host has no VF, want nic/whole", r.Request)
	}
	n.Expect("first-available", "app", r.Device)
}

// TestJobManifests: an API server takes the jobs of its own kinds that nobody has run.
func TestJobManifests(t *testing.T) {
	apply := []string{"apply", "--dry-run=server"}
	for _, job := range []string{"bandwidth", "gpus-by-plugin", "nixl", "pytorch"} {
		apply = append(apply, "--filename", bed.Checkout.Path("examples", "jobs", job+".yaml"))
	}
	bed.Namespace(t).Kubectl(apply...)
}
