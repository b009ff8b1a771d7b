package plugin

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fabrictest"
)

// trainer is a job whose two pods hold an HCA each.
const trainer = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: trainer}
spec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev, selectors: [
  {cel: {expression: 'device.attributes["resource.kubernetes.io"].pciBusID in ["0000:4b:00.0", "0000:52:00.0"]'}}]}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: trainer}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: nic, resourceClaimTemplateName: trainer}]
      containers: [{name: main, image: busybox, resources: {claims: [{name: nic}]}}]
`

// faults are what a driver would say of two HCAs.
const faults = `[
  {"op": "test", "path": "/spec/devices/5/name", "value": "pci-0000-5c-00-0"},
  {"op": "add", "path": "/spec/devices/5/taints", "value": [{"key": "rdma.dev/miswired", "effect": "None"}]},
  {"op": "test", "path": "/spec/devices/6/name", "value": "pci-0000-6e-00-0"},
  {"op": "add", "path": "/spec/devices/6/taints", "value": [{"key": "rdma.dev/pcie-degraded", "effect": "None"}]}]`

// report has every published HCA once, with its trouble. An older Kubernetes has no taints of devices.
func (b *bed) report(newer bool) {
	b.apply(trainer)
	b.until("a node for each pod of a job", func() bool {
		nodes := b.run("kubectl", "get", "pods", "-l=job-name=trainer", "-o=jsonpath={.items[*].spec.nodeName}")
		return nodes == "train train"
	})
	cells := map[string]string{"19-00-0": `held j\d`, "29-00-0": "free", "4b-00-0": "held j0", "52-00-0": "held j0"}
	wants := []string{
		"<svg", "default/holder-nic", "<b>default/job/trainer</b> 2 HCAs on 1 node", "Why pods wait", "default/allocated",
	}
	if newer {
		b.run("kubectl", "patch", "resourceslice", "00000-rdma.dev-train", "--type=json", "-p", faults)
		b.run("kubectl", "rdma", "drain", "train", "mlx5_2", "--reason", "cable 17")
		defer b.run("kubectl", "rdma", "undrain", "train", "mlx5_2")
		cells["3b-00-0"], cells["5c-00-0"], cells["6e-00-0"] = "drained", "miswired", "degraded"
		cells["7e-00-0"], cells["90-00-0"] = "tainted", "tainted"
		wants = append(wants, "rdma.dev/port-down (NoSchedule)")
	}
	page := b.run("kubectl", "rdma", "report", "--node=train")
	for hca, class := range cells {
		test.RegexMatch(b, regexp.MustCompile(`<i class="`+class+`" data-hca="train/pci-0000-`+hca+`"`), page)
	}
	for _, want := range wants {
		test.StrContains(b, page, want)
	}
	names := strings.Fields(b.run("kubectl", "get", "resourceslices", "--field-selector=spec.driver=rdma.dev",
		"-o=go-template={{range .items}}{{$pool := .spec.pool.name}}"+
			"{{range .spec.devices}}{{$pool}}/{{.name}} {{end}}{{end}}"))
	must.SliceNotEmpty(b, names)
	for i := range names {
		names[i] = strings.Replace(names[i], "/shared-", "/", 1) // an HCA may be published for one claim and for many
	}
	slices.Sort(names)
	b.Run("browser", func(t *testing.T) { fabrictest.Check(t, page, slices.Compact(names)) })
}
