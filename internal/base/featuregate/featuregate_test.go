package featuregate_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
)

// TestWords: what is not known of the server is not said of it.
func TestWords(t *testing.T) {
	for minor, want := range map[int]string{
		0:  "feature gate DRADeviceTaintRules, off by default before Kubernetes 1.37",
		34: "feature gate DRADeviceTaintRules, which Kubernetes 1.34 does not have",
		35: "feature gate DRADeviceTaintRules, off by default in Kubernetes 1.35",
		37: "feature gate DRADeviceTaintRules, on by default in Kubernetes 1.37",
	} {
		test.Eq(t, want, featuregate.Words(featuregate.DeviceTaintRules, minor))
	}
}
