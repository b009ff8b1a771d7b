package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

const (
	// privilegedClass gives out the management interface of the fabric.
	privilegedClass = "mad.e2e.rdma.dev"
	// legacyResource is the class as an extended resource.
	legacyResource = "e2e.rdma.dev/mad"
	// refusal is in every message about a namespace that may not use such a class.
	refusal = "lacks the label rdma.dev/privileged-classes=true"
)

// deviceClass writes a DeviceClass with labels and parameters for the driver.
func deviceClass(name, labels, parameters string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %s, labels: {%s}}
spec:
  extendedResourceName: %s
  selectors: [{cel: {expression: 'device.driver == "rdma.dev"'}}]
  config: [{opaque: {driver: rdma.dev, parameters: {apiVersion: rdma.dev/v1alpha1, kind: HCAClassConfig, %s}}}]
`, name, labels, legacyResource, parameters)
}

// createPrivilegedClass makes the class for one test.
func createPrivilegedClass(t *testing.T) {
	t.Helper()
	manifest := deviceClass(privilegedClass, `rdma.dev/privileged: "true"`, "allow: {nodes: [verbs, cm, mad]}, defaults: {nodes: [verbs, cm, mad]}")
	createClass(t, privilegedClass, manifest)
}

// createClass makes a DeviceClass for one test.
func createClass(t *testing.T, name, manifest string) {
	t.Helper()
	out, err := bed.KubectlInput(t, manifest, "create", "-f", "-")
	must.NoError(t, err, must.Sprintf("create DeviceClass: %s", out))
	t.Cleanup(func() { bed.Kubectl(t, "delete", "deviceclass", name) })
}

// refused asserts that the API server refuses a manifest, with the words.
func refused(t *testing.T, manifest, namespace string, words ...string) {
	t.Helper()
	out, err := bed.KubectlInput(t, manifest, "--namespace", namespace, "create", "--dry-run=server", "-f", "-")
	if err == nil {
		t.Errorf("accepted:\n%s", manifest)
	} else if !testbed.ContainsAll(out, words) {
		t.Errorf("the refusal does not say all of %q:\n%s", words, out)
	}
}

// accepted waits until the API server would take a manifest: it sees the label of a namespace by a watch.
func accepted(t *testing.T, manifest, namespace string) {
	t.Helper()
	testbed.Eventually(t, "acceptance", func() error {
		out, err := bed.KubectlInput(t, manifest, "--namespace", namespace, "create", "--dry-run=server", "-f", "-")
		if err != nil {
			err = fmt.Errorf("%w: %s\n%s", err, out, manifest)
		}
		return err
	})
}

// TestPrivilegedClassNeedsLabel: a DeviceClass that gives out mad or sm nodes says so
// by a label; others need none.
func TestPrivilegedClassNeedsLabel(t *testing.T) {
	for parameters, privileged := range map[string]bool{
		"allow: {nodes: [verbs, cm, mad]}":                         true,
		"allow: {nodes: [sm]}":                                     true,
		"allow: {nodes: [cm, sm]}, defaults: {nodes: [sm]}":        true,
		"allow: {nodes: [verbs, mad]}, defaults: {nodes: [verbs]}": true,
		"allow: {nodes: [verbs, cm]}, defaults: {nodes: [verbs]}":  false,
		"allow: {memlockMax: 1Gi}":                                 false,
		"allow: null, defaults: {nodes: null}":                     false,
	} {
		if privileged {
			refused(t, deviceClass("x", "", parameters), "default", "DeviceClass x ", "rdma.dev/privileged=true")
			refused(t, deviceClass("x", `rdma.dev/privileged: "false"`, parameters), "default", "rdma.dev/privileged=true")
		} else {
			accepted(t, deviceClass("x", "", parameters), "default")
		}
		accepted(t, deviceClass("x", `rdma.dev/privileged: "true"`, parameters), "default")
	}
	accepted(t, strings.ReplaceAll(deviceClass("x", "", "allow: {nodes: [mad]}"), "driver: rdma.dev", "driver: other.example.com"), "default")

	createPrivilegedClass(t)
	if out, err := bed.KubectlInput(t, "", "label", "deviceclass", privilegedClass, "rdma.dev/privileged-"); err == nil {
		t.Errorf("the label of a privileged class can be removed: %s", out)
	}
}

// asking lists manifests that name a class, for every version of the API that is served.
func asking(t *testing.T, class string) []string {
	t.Helper()
	requests := []string{
		"{name: nic, exactly: {deviceClassName: " + class + "}}",
		"{name: nic, firstAvailable: [{name: a, deviceClassName: hca.rdma.dev}, {name: b, deviceClassName: " + class + "}]}",
	}
	var manifests []string
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		if !strings.Contains(bed.Kubectl(t, "api-versions"), "resource.k8s.io/"+version+"\n") {
			continue
		}
		for _, request := range requests {
			if version == "v1beta1" {
				request = strings.Replace(request, "exactly: {deviceClassName: "+class+"}", "deviceClassName: "+class, 1)
			}
			spec := "{devices: {requests: [" + request + "]}}"
			head := "apiVersion: resource.k8s.io/" + version + "\nmetadata: {name: x}\n"
			manifests = append(manifests,
				head+"kind: ResourceClaim\nspec: "+spec,
				head+"kind: ResourceClaimTemplate\nspec: {spec: "+spec+"}")
		}
	}
	return manifests
}

// TestPrivilegedClaim: who asks for a privileged class in a namespace without the label is
// told at once, whatever the form; with the label the container gets the nodes.
func TestPrivilegedClaim(t *testing.T) {
	createPrivilegedClass(t)
	t.Run("without-label", func(t *testing.T) {
		n := bed.Namespace(t)
		bed.Kubectl(t, "label", "namespace", n.Name, "rdma.dev/privileged-classes=false")
		// The API server learns of a class with the label by a watch.
		testbed.Eventually(t, "refusal", func() error {
			out, err := bed.KubectlInput(t, asking(t, privilegedClass)[0], "--namespace", n.Name, "create", "--dry-run=server", "-f", "-")
			if err == nil {
				return fmt.Errorf("accepted: %s", out)
			}
			return nil
		})
		for _, manifest := range asking(t, privilegedClass) {
			refused(t, manifest, n.Name, "DeviceClass "+privilegedClass, refusal, "kubectl label namespace "+n.Name)
		}
		for _, manifest := range asking(t, "hca.rdma.dev") {
			accepted(t, manifest, n.Name)
		}
	})
	t.Run("with-label", func(t *testing.T) {
		n := bed.Namespace(t)
		bed.Kubectl(t, "label", "namespace", n.Name, "rdma.dev/privileged-classes=true")
		for _, manifest := range asking(t, privilegedClass) {
			accepted(t, manifest, n.Name)
		}
		n.Apply(strings.ReplaceAll(testbed.Template("mad", "hca.rdma.dev", ""), "hca.rdma.dev", privilegedClass) + testbed.Pod("app", "resourceClaimTemplateName: mad"))
		n.Ready("app")
		if nodes := n.Look("app", "app").Nodes; !testbed.ContainsAll(nodes, []string{"umad", "uverbs", "rdma_cm"}) {
			t.Errorf("the container sees %s", nodes)
		}
	})
}

// TestPrivilegedClaimBeforeClass: a claim that is older than the class it names is
// refused when it is to be allocated.
func TestPrivilegedClaimBeforeClass(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(asking(t, privilegedClass)[0] + "\n---" + testbed.Pod("app", "resourceClaimName: x"))
	n.Event("app", "device class "+privilegedClass+" does not exist")
	createPrivilegedClass(t)
	n.Event("app", "request nic of ResourceClaim x", refusal, "kubectl label namespace "+n.Name)
	if results := n.Claims()[0].Results(); len(results) > 0 {
		t.Errorf("allocated %v", results)
	}
	bed.Kubectl(t, "label", "namespace", n.Name, "rdma.dev/privileged-classes=true")
	n.Ready("app")
	// What is allocated can be released whatever the label says by then.
	bed.Kubectl(t, "label", "namespace", n.Name, "rdma.dev/privileged-classes-")
	n.Kubectl("delete", "pod", "app", "--wait")
	testbed.Eventually(t, "deallocation", func() error {
		if results := n.Claims()[0].Results(); len(results) > 0 {
			return fmt.Errorf("still allocated: %v", results)
		}
		return nil
	})
}

// TestPrivilegedClassWithoutLabel: a class that is older than the policies may lack the
// label. Nothing is allocated for a claim that names it.
func TestPrivilegedClassWithoutLabel(t *testing.T) {
	act := func(action string) {
		bed.Kubectl(t, "patch", "validatingadmissionpolicybinding", "privileged-classes.rdma.dev", "--type=merge",
			"--patch", `{"spec": {"validationActions": ["`+action+`"]}}`)
	}
	act("Audit")
	t.Cleanup(func() { act("Deny") })
	manifest := deviceClass(privilegedClass, "", "allow: {nodes: [sm]}")
	testbed.Eventually(t, "a class without the label", func() error {
		if out, err := bed.KubectlInput(t, manifest, "create", "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	t.Cleanup(func() { bed.Kubectl(t, "delete", "deviceclass", privilegedClass) })
	n := bed.Namespace(t)
	n.Apply(asking(t, privilegedClass)[0] + "\n---" + testbed.Pod("app", "resourceClaimName: x"))
	n.Event("app", "request nic of ResourceClaim x", refusal)
}

// TestPrivilegedExtendedResource: the claim that the scheduler makes for a pod falls under
// the same rule, for the class's own name and for the implicit one.
func TestPrivilegedExtendedResource(t *testing.T) {
	createPrivilegedClass(t)
	n := bed.Namespace(t)
	for name, resource := range map[string]string{"named": legacyResource, "implicit": "deviceclass.resource.kubernetes.io/" + privilegedClass} {
		n.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: "busybox:1.37", command: [sleep, "1000"], resources: {limits: {%s: 1}}}]
`, name, resource))
		n.Event(name, "DeviceClass "+privilegedClass, refusal)
		if phase := n.Kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"); phase != "Pending" {
			t.Errorf("pod %s is %s", name, phase)
		}
	}
	bed.Kubectl(t, "label", "namespace", n.Name, "rdma.dev/privileged-classes=true")
	n.Ready("named", "implicit")
}

// TestPrivilegedAdminAccess: an administrator's access needs Kubernetes' own label only.
func TestPrivilegedAdminAccess(t *testing.T) {
	createPrivilegedClass(t)
	n := bed.Namespace(t)
	bed.Kubectl(t, "label", "namespace", n.Name, "resource.kubernetes.io/admin-access=true")
	claim := strings.Replace(asking(t, privilegedClass)[0], "deviceClassName:", "adminAccess: true, deviceClassName:", 1)
	n.Apply(claim + "\n---" + testbed.Pod("app", "resourceClaimName: x"))
	n.Ready("app")
}
