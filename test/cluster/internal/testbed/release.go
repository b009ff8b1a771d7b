package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// upgrade installs or upgrades the driver with values for the chart.
func (b *Bed) upgrade(ctx context.Context, values string) error {
	file := filepath.Join(b.dir, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		return err
	}
	if err := b.Checkout.Install(ctx, b.Cluster, b.HostRoot, "--set", "hostPaths.kubelet="+b.kubeletDir(), "--values", file); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, values, deploy.Said(ctx, b.Cluster))
	}
	return nil
}

// Configure upgrades the driver's release with other values until the test ends.
// The driver reads them a moment later: wait for what should follow.
func (b *Bed) Configure(t *testing.T, values string) {
	t.Helper()
	must.NoError(t, b.upgrade(t.Context(), values))
	t.Cleanup(func() {
		test.NoError(t, b.upgrade(context.Background(), b.values))
	})
}

// SwitchHost puts another bundled host in the place of the first one until the test
// ends, with values of its own.
func (b *Bed) SwitchHost(t *testing.T, machine, values string) {
	t.Helper()
	root := filepath.Join(b.dir, machine+"-of-"+t.Name()) // others may be on a host like it
	must.NoError(t, b.Checkout.ExtractHost(t.Context(), machine, root))
	b.Inside(t, "sh", "-euc", makeNodes+mountDev, root)
	before := b.HostRoot
	b.HostRoot = root
	t.Cleanup(func() {
		b.HostRoot = before
		b.Inside(t, "sh", "-euc", makeNodes, before)
		test.NoError(t, b.upgrade(context.Background(), b.values))
		b.Inside(t, "umount", filepath.Join(root, "dev"))
	})
	must.NoError(t, b.upgrade(t.Context(), values))
}

// makeNodes makes the device nodes that a host has and the node lacks, or has with other numbers: those of rdma_cm
// differ between kernels. mountDev shows the node's /dev as the host's.
const (
	makeNodes = `
cd "$0/sys/class"
for dev in infiniband_verbs/*/dev infiniband_mad/*/dev misc/rdma_cm/dev; do
	name=/dev/infiniband/$(basename "$(dirname "$dev")")
	[ -e "$dev" ] || continue
	number=$(cat "$dev")
	wanted=$(printf '%x:%x' "${number%:*}" "${number#*:}")
	[ "$(stat -c %t:%T "$name" 2>/dev/null || :)" != "$wanted" ] || continue
	rm -f "$name"
	mknod -m 666 "$name" c "${number%:*}" "${number#*:}"
done
`
	mountDev = `
mkdir "$0/dev"
mount --bind /dev "$0/dev"
`
)

// Device is what the tests read of a device in a ResourceSlice.
type Device struct {
	Name                     string
	Attributes               map[string]map[string]any
	Capacity                 map[string]struct{ Value string }
	AllowMultipleAllocations bool
	ConsumesCounters         []any
	Taints                   []any
}

// Devices are the devices that the driver publishes, by name.
func (b *Bed) Devices(t *testing.T) map[string]Device {
	t.Helper()
	var list struct {
		Items []struct{ Spec struct{ Devices []Device } }
	}
	out := b.Kubectl(t, "get", "resourceslices", "--field-selector", "spec.driver=rdma.dev", "-o", "json")
	must.NoError(t, json.Unmarshal([]byte(out), &list))
	devices := map[string]Device{}
	for _, slice := range list.Items {
		for _, d := range slice.Spec.Devices {
			devices[d.Name] = d
		}
	}
	return devices
}

// Published waits until devices are there and others are not.
func (b *Bed) Published(t *testing.T, want, unwanted []string) {
	t.Helper()
	Eventually(t, "publication", func() error {
		devices := b.Devices(t)
		for _, name := range want {
			if _, ok := devices[name]; !ok {
				return fmt.Errorf("%s is missing among %d devices", name, len(devices))
			}
		}
		for _, name := range unwanted {
			if _, ok := devices[name]; ok {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
}

// Said counts the lines of the driver's log that have all the words.
func (b *Bed) Said(words ...string) int {
	count := 0
	for line := range strings.Lines(b.DriverLog()) {
		if ContainsAll(line, words) {
			count++
		}
	}
	return count
}
