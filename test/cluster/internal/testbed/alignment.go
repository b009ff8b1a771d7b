package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// GPUDriver is the driver of the GPUs that the bundled hosts have.
const GPUDriver = "gpu.example.com"

// PCIPath is the way from the root complex to a device named after its PCI address,
// as the host's sysfs has it: root, bridges, function.
func (b *Bed) PCIPath(t *testing.T, device string) []string {
	t.Helper()
	target, err := os.Readlink(filepath.Join(b.HostRoot, "sys/bus/pci/devices", address(device)))
	must.NoError(t, err)
	_, path, ok := strings.Cut(target, "/devices/")
	must.True(t, ok, must.Sprintf("device %s is at %s", device, target))
	return strings.Split(path, "/")
}

// SameRoot says whether two devices sit below one PCIe root.
func (b *Bed) SameRoot(t *testing.T, one, other string) bool {
	t.Helper()
	return b.PCIPath(t, one)[0] == b.PCIPath(t, other)[0]
}

// SameSwitch says whether two devices sit below one PCIe switch: all of the way is
// the same but the last downstream port and the function.
func (b *Bed) SameSwitch(t *testing.T, one, other string) bool {
	t.Helper()
	p, q := b.PCIPath(t, one), b.PCIPath(t, other)
	return len(p) > 4 && slices.Equal(p[:len(p)-2], q[:max(0, len(q)-2)])
}

// pairs are the GPUs and HCAs of a claim, by request: gpu and hca, gpu0 and hca0.
func (c Claim) pairs() [][2]Result {
	requests := map[string]Result{}
	for _, r := range c.Results() {
		name, _, _ := strings.Cut(r.Request, "/")
		requests[name] = r
	}
	var pairs [][2]Result
	for name, r := range requests {
		if number, ok := strings.CutPrefix(name, "gpu"); ok {
			pairs = append(pairs, [2]Result{r, requests["hca"+number]})
		}
	}
	return pairs
}

// Align applies an example of alignment, with as many copies of its pod as there are
// claims to be, and asserts that all pairs of a GPU and an HCA are aligned, and how many there are.
func (n *Namespace) Align(example string, claims, pairs int, aligned func(t *testing.T, gpu, hca string) bool) {
	n.t.Helper()
	manifest := ReadFile(n.t, n.Checkout.Example(example))
	_, pod, _ := strings.Cut(manifest, "\n---\n")
	names := []string{example}
	for i := 1; i < claims; i++ {
		names = append(names, fmt.Sprintf("%s-%d", example, i))
		manifest += "\n---\n" + strings.Replace(pod, "name: "+example+"\n", "name: "+names[i]+"\n", 1)
	}
	n.Apply(manifest)
	n.Ready(names...)
	count := 0
	for _, c := range n.Claims() {
		for _, p := range c.pairs() {
			count++
			test.True(n.t, aligned(n.t, p[0].Device, p[1].Device),
				test.Sprintf("claim %s has GPU %s and HCA %s", c.Metadata.Name, p[0].Device, p[1].Device))
		}
	}
	test.Eq(n.t, pairs, count, test.Sprint("pairs"))
	n.Kubectl("delete", "pods", "--all", "--wait")
}
