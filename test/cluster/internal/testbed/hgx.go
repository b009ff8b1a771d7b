package testbed

import (
	_ "embed"
	"fmt"
)

// HGXValues are for the chart on the bundled host hgx-h100: a policy that shares SharedStorage and offers the others
// whole.
//
//go:embed hgx.yaml
var HGXValues string

// HCAs of the bundled host hgx-h100: two for GPUs, with their PCI addresses, and one for storage, whole and as it is in
// HGXValues.
const (
	HCAOne, AddressOne     = "pci-0000-19-00-0", "0000:19:00.0"
	HCAOther, AddressOther = "pci-0000-29-00-0", "0000:29:00.0"
	Storage                = "pci-0000-52-00-0"
	SharedStorage          = "shared-" + Storage
)

// AdminLabel of a namespace allows claims with admin access.
const AdminLabel = "resource.kubernetes.io/admin-access"

// RequestFor writes a ResourceClaimTemplate for one HCA, by its PCI address.
func RequestFor(name, class, address string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s}
spec:
  spec:
    devices:
      requests:
      - name: nic
        exactly:
          deviceClassName: %s
          selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].?pciBusID.orValue("") == "%s"'}}]
---`, name, class, address)
}

// PodFor writes the manifest of a [Pod] with a claim of a template.
func PodFor(name, template string) string {
	return Pod(name, "resourceClaimTemplateName: "+template)
}
