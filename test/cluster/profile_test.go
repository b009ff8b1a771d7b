package cluster

import (
	"maps"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

func TestProfile(t *testing.T) {
	o, err := Options{Profile: "1.34", FeatureGates: map[string]bool{"DRADeviceTaints": true, "Own": true}}.complete()
	must.NoError(t, err)
	want := maps.Clone(olderGates)
	want["DRADeviceTaints"], want["Own"] = true, true
	test.True(t, maps.Equal(o.FeatureGates, want), test.Sprintf("gates %v, want %v", o.FeatureGates, want))
	test.False(t, olderGates["DRADeviceTaints"], test.Sprint("the profile itself has changed"))
	if again, err := o.complete(); err != nil || again.gates() != o.gates() {
		t.Errorf("completed twice: %s, %v; want %s", again.gates(), err, o.gates())
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		options Options
		want    string
	}{
		{Options{}, ""},
		{Options{Kubernetes: "1.34"}, ""},
		{Options{Profile: "1.35"}, ""},
		{Options{Kubernetes: "1.2"}, "there is 1.34, 1.35, 1.36"},
		{Options{Profile: "1.36"}, "there is 1.34, 1.35"},
		{Options{Kubernetes: "1.34", Profile: "1.34"}, "defaults of its own"},
	} {
		_, err := tc.options.complete()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.options, err, tc.want)
		}
	}
}
