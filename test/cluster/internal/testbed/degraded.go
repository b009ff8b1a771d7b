package testbed

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
)

//go:embed degraded.yaml
var degradedValues string

// DegradedValues are for the chart: a policy that needs every optional feature. It
// has one HCA shared, another one shared and exclusive, and the others exclusive.
func DegradedValues(shared, both string) string {
	return strings.NewReplacer("SHARED", address(shared), "BOTH", address(both)).Replace(degradedValues)
}

// Degraded are the tests of a cluster without the feature gates that are off by
// default in Kubernetes 1.34 and 1.35, with DegradedValues of the same HCAs.
func (b *Bed) Degraded(t *testing.T, shared, both string) {
	t.Run("said once", func(t *testing.T) { b.saidOnce(t) })
	t.Run("published", func(t *testing.T) {
		b.Published(t, []string{"shared-" + shared, "shared-" + both}, []string{shared, both})
		for name, d := range b.Devices(t) {
			if d.AllowMultipleAllocations || len(d.ConsumesCounters) > 0 || len(d.Taints) > 0 {
				t.Errorf("%s is published with features that the server has not: %+v", name, d)
			}
		}
	})
	t.Run("one at a time", func(t *testing.T) { b.oneAtATime(t) })
}

// saidOnce: what the API server lacks stands in the log once, with the effect.
func (b *Bed) saidOnce(t *testing.T) {
	for _, gate := range []string{"DRAConsumableCapacity", "DRAPartitionableDevices"} {
		Eventually(t, "word on "+gate, func() error {
			if b.Said("optional feature", gate) == 0 {
				return fmt.Errorf("the log says nothing of it")
			}
			return nil
		})
	}
	for _, gate := range []string{"DRAConsumableCapacity", "DRAPartitionableDevices"} {
		if count := b.Said("optional feature", `featureGate="`+gate+`"`); count != 1 {
			t.Errorf("the log says %d times that %s is missing:\n%s", count, gate, b.DriverLog())
		}
	}
}

// oneAtATime: an HCA that cannot be shared is safe: for one claim at a time.
func (b *Bed) oneAtATime(t *testing.T) {
	n := b.Namespace(t)
	n.Apply(Template("share", "shared.hca.rdma.dev", "") + Pod("first", "resourceClaimTemplateName: share") + Pod("second", "resourceClaimTemplateName: share"))
	n.Ready("first", "second")
	first, second := n.ClaimOf("first").Results()[0], n.ClaimOf("second").Results()[0]
	if first.Device == second.Device || first.ShareID != "" {
		t.Errorf("the claims have %+v and %+v", first, second)
	}
	n.Expect("first", "app", first.Device)
	n.Apply(Pod("third", "resourceClaimTemplateName: share"))
	n.Pending("third")
	n.Delete("first")
	n.Ready("third")
}
