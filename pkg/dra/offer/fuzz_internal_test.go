package offer

import "testing"

// FuzzRuntimeVersion: no name of a container runtime is too odd.
func FuzzRuntimeVersion(f *testing.F) {
	for _, seed := range []string{
		"containerd://1.7.2", "containerd://v1.6.0", "containerd://2.1.0", "cri-o://1.34.0", "", "containerd://",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, version string) {
		if err := dropsCDI(version); err != nil && len(version) < len("containerd://1.") {
			t.Errorf("%q: %v", version, err)
		}
	})
}
