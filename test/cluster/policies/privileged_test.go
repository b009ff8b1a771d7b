package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

const privilegedClass = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fabric, labels: {rdma.dev/privileged: "true"}}
spec: {selectors: [{cel: {expression: device.driver == "rdma.dev"}}]}
`

// A claim without requests, of whatever driver, is nobody's business. The API server shows
// it to the policy of privileged classes with null for the list.
func (s *server) claimsWithoutRequests(t *testing.T) {
	s.install(t, "policy-privileged-classes.yaml")
	out, err := s.run(t, privilegedClass, "create", "-f", "-")
	must.NoError(t, err, must.Sprint(out))
	create := func(devices string) (string, error) {
		objects := fmt.Sprintf(`
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one}, spec: {devices: %[1]s}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: %[1]s}}}
`, devices)
		return s.run(t, objects, "create", "--dry-run=server", "-f", "-")
	}
	testbed.Eventually(t, "the policy", func() error {
		out, _ := create("{requests: [{name: r, exactly: {deviceClassName: fabric}}]}")
		if strings.Count(out, "DeviceClass fabric gives out nodes") != 2 {
			return errors.New(out)
		}
		return nil
	})
	if out, err := create("{}"); err != nil {
		t.Error(out)
	}
}
