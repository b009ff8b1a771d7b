package offer

import (
	"testing"

	"github.com/shoenig/test"
)

// TestDropsCDI: which runtimes start a container without its CDI devices.
func TestDropsCDI(t *testing.T) {
	for version, want := range map[string]bool{
		"containerd://1.7.24":      true,
		"containerd://v1.6.0":      true,
		"containerd://1.7.24-k3s1": true,
		"containerd://2.0.0":       false,
		"containerd://v2.0.0-rc.1": false,
		"containerd://10.1.0":      false,
		"cri-o://1.34.0":           false,
		"docker://1.13":            false,
		"":                         false,
	} {
		err := dropsCDI(version)
		test.Eq(t, want, (err != nil), test.Sprintf("runtime %q: %v", version, err))
	}
}
