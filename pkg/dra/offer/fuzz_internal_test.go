package offer

import (
	"testing"

	"github.com/shoenig/test"
)

// FuzzRuntimeVersion: no name of a container runtime is too odd.
func FuzzRuntimeVersion(f *testing.F) {
	for _, seed := range []string{
		"containerd://1.7.2", "containerd://v1.6.0", "containerd://2.1.0", "cri-o://1.34.0", "", "containerd://",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, version string) {
		err := dropsCDI(version)
		test.True(t, err == nil || len(version) >= len("containerd://1."), test.Sprintf("%q: %v", version, err))
	})
}
