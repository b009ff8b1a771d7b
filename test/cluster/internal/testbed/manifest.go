package testbed

import "fmt"

// Pod writes the manifest of a pod with one container "app" that names a claim,
// from a template or by name ("resourceClaimName: x").
func Pod(name, claimSource string) string {
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
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    securityContext: {runAsUser: 1000}
    resources: {claims: [{name: hca}]}
---`, name, claimSource)
}

// Template writes a ResourceClaimTemplate for one device of a class, with parameters
// for the driver if there are any.
func Template(name, class, parameters string) string {
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
      requests: [{name: nic, exactly: {deviceClassName: %s}}]%s
---`, name, class, config)
}
