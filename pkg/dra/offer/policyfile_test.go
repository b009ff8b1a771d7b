package offer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
)

// TestReadPolicy: a file that no claim could be prepared with is as bad as one that cannot be read.
func TestReadPolicy(t *testing.T) {
	for name, tc := range map[string]struct{ lines, want string }{
		"text that CDI does not carry": {"env: {A: \"\\u0007\"}", "is not printable text"},
		"unknown field":                {"rule: []", "rule"},
		"expression": {
			"rules: [{name: a, selectors: [{cel: {expression: device.x}}]}]", "rules[0].selectors[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			must.NoError(t, os.WriteFile(file, []byte(tc.lines), 0o600))
			_, err := offer.ReadPolicy(file)
			test.True(t, err != nil && strings.Contains(err.Error(), tc.want) &&
				strings.Contains(err.Error(), file),
				test.Sprintf("error is %v, want the file and %q", err, tc.want))
		})
	}
	_, err := offer.ReadPolicy("/nonexistent/config.yaml")
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("without a file"))
}
