package cluster

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		options Options
		want    string
	}{
		{Options{}, ""},
		{Options{Kubernetes: "1.34"}, ""},
		{Options{Kubernetes: "1.2"}, "there is 1.34, 1.35, 1.36"},
	} {
		_, err := tc.options.complete()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.options, err, tc.want)
		}
	}
}
