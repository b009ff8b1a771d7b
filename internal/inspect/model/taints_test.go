package model

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// TestEvicts: the rows are those of TestDrain in test/cluster/e2e/plugin, beside the controller that evicts.
func TestEvicts(t *testing.T) {
	any := resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists}
	execute := any
	execute.Effect = resourceapi.DeviceTaintEffectNoExecute
	schedule := any
	schedule.Effect = resourceapi.DeviceTaintEffectNoSchedule
	seconds := func(n int64) resourceapi.DeviceToleration { t := execute; t.TolerationSeconds = &n; return t }
	for _, tc := range []struct {
		tolerations []resourceapi.DeviceToleration
		after       time.Duration
		ends        bool
	}{
		{nil, 0, true}, {[]resourceapi.DeviceToleration{execute}, 0, false},
		{[]resourceapi.DeviceToleration{any, schedule}, 0, true},
		{[]resourceapi.DeviceToleration{seconds(7200), any, seconds(3600)}, time.Hour, true},
		{[]resourceapi.DeviceToleration{seconds(-1), seconds(60)}, 0, true},
		{[]resourceapi.DeviceToleration{seconds(-1), execute}, 0, false},
	} {
		taint := &resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute}
		if after, ends := Evicts(taint, tc.tolerations); after != tc.after || ends != tc.ends {
			t.Errorf("%+v: after %v, %t; want %v, %t", tc.tolerations, after, ends, tc.after, tc.ends)
		}
		taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
		if _, ends := Evicts(taint, tc.tolerations); ends {
			t.Errorf("%+v: NoSchedule evicts", tc.tolerations)
		}
	}
}
