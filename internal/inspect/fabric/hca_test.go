package fabric

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// TestStateOf: an HCA is excluded only if the allocator says so, and free only if all of its devices were seen.
func TestStateOf(t *testing.T) {
	const free, full, excluded = model.DeviceFree, model.DeviceFull, model.DeviceExcluded
	for _, tc := range []struct {
		want    State
		devices []model.DeviceState
	}{
		{Free, []model.DeviceState{excluded, free}},
		{Free, []model.DeviceState{model.DeviceShared, full}},
		{Excluded, []model.DeviceState{full, excluded}},
		{NotSeen, []model.DeviceState{full}},
		{NotSeen, []model.DeviceState{free, model.DeviceUnknown}},
	} {
		test.Eq(t, tc.want, stateOf(tc.devices), test.Sprint(tc.devices))
	}
}
