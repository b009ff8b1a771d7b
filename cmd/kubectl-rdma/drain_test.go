package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// TestDrainNames: a rule's name is valid for the API server, whatever the names of node and HCA are.
func TestDrainNames(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
	seen := map[string]bool{}
	for _, node := range []string{"n", long, long[:252] + "e"} {
		c := &model.Cluster{}
		plan, err := drain.NewPlan(c, node, nil, resourceapi.DeviceTaintEffectNoSchedule, "")
		must.NoError(t, err)
		name := plan.Rules[0].Name
		if len(name) > 253 || !valid.MatchString(name) || seen[name] {
			t.Errorf("node %s: rule %s", node, name)
		}
		seen[name] = true
	}
}
