package resources_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/shoenig/test"
)

func taint(key string, effect resourceapi.DeviceTaintEffect) []resourceapi.DeviceTaint {
	return []resourceapi.DeviceTaint{{Key: "rdma.dev/" + key, Effect: effect}}
}

// TestTaints: both devices of an HCA have its taints; a group has some when no member
// is left that new claims could use.
func TestTaints(t *testing.T) {
	const none, schedule, execute = resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute
	for _, tc := range []struct {
		name         string
		a, b         []resourceapi.DeviceTaint
		draining     bool
		untainted    bool
		want, wantOf string // of the devices of a, and of the group
	}{
		{"none", nil, nil, false, false, "", ""},
		{"one member", taint("port-down", schedule), nil, false, false, "port-down:NoSchedule", ""},
		{"one informs", taint("port-down", schedule), taint("no-address", none), false, false, "port-down:NoSchedule", ""},
		{"all members", taint("port-down", execute), taint("no-guid", schedule), false, false, "port-down:NoExecute", "no-guid:NoSchedule port-down:NoSchedule"},
		{"all would evict", taint("port-down", execute), taint("port-down", execute), false, false, "port-down:NoExecute", "port-down:NoExecute"},
		{"draining too", taint("port-down", schedule), nil, true, false, "draining:NoSchedule port-down:NoSchedule", ""},
		{"dropped by the API server", taint("port-down", schedule), taint("port-down", schedule), true, true, "", ""},
	} {
		hcas := []rdma.HCA{{Name: "pci-a", Function: rdma.PF}, {Name: "pci-b", Function: rdma.PF}}
		offers := []resources.Offer{
			{HCA: &hcas[0], Form: resources.FormBoth, Taints: tc.a, Draining: tc.draining, Capacity: resources.Capacity{Shares: 1, DefaultShares: 1}},
			{HCA: &hcas[1], Form: resources.FormExclusive, Taints: tc.b},
		}
		groups := []resources.Group{{Name: "all", Members: []*rdma.HCA{&hcas[0], &hcas[1]}, Shares: 1}}
		got := map[string]string{}
		for _, s := range resources.Slices(offers, groups, rdma.NetnsShared, resources.Options{Consumable: true, NoTaints: tc.untainted}) {
			for _, d := range s.Devices {
				var words []string
				for _, one := range d.Taints {
					words = append(words, strings.TrimPrefix(one.Key, "rdma.dev/")+":"+string(one.Effect))
				}
				got[d.Name] = strings.Join(words, " ")
			}
		}
		test.True(t, got["pci-a"] == tc.want && got["shared-pci-a"] == tc.want && got["group-all"] == tc.wantOf,
			test.Sprintf("%s: %q, want %q and %q for the group", tc.name, got, tc.want, tc.wantOf))
	}
}
