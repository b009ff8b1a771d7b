package dra_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestDeviceInfo: devices with a resource name have a device information file when they are
// published.
func TestDeviceInfo(t *testing.T) {
	dir := drivertest.TempDir(t)
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n, func(c *dra.Config) { c.Policy, c.DeviceInfoDir = vfsForCNI(t), dir })
	drivertest.WaitPublished(t, n)
	data, err := os.ReadFile(filepath.Join(dir, "example.com-vf-0000:3b:00.3-device.json"))
	test.True(t, err == nil &&
		strings.Contains(string(data), `"pci-address":"0000:3b:00.3","rdma-device":"mlx5_3",`+
			`"pf-pci-address":"0000:3b:00.0"`),
		test.Sprintf("device information %s, %v", data, err))
	entries, err := os.ReadDir(dir)
	test.True(t, err == nil && len(entries) == 8,
		test.Sprintf("%d files (%v), want one for each of 8 VFs", len(entries), err))
}

// TestDeviceInfoMissing: a directory that is missing holds up nothing, and the status page tells.
func TestDeviceInfoMissing(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, func(c *dra.Config) {
		c.Policy, c.DeviceInfoDir = vfsForCNI(t), filepath.Join(drivertest.TempDir(t), "missing")
	})
	drivertest.WaitPublished(t, n)
	test.True(t, slices.ContainsFunc(reasons(d.Status(t.Context())), func(s string) bool { return strings.HasPrefix(s, "DeviceInfoNotWritten") }),
		test.Sprint("events"))
}

// vfsForCNI is a policy that names VFs for CNI plugins.
func vfsForCNI(t *testing.T) *policy.Config {
	t.Helper()
	c, err := policy.Parse([]byte(`
apiVersion: rdma.dev/v1alpha1
kind: DriverConfig
rules: [{name: vfs, resourceName: example.com/vf, selectors: [{cel: {expression: 'device.attributes["rdma.dev"].function == "vf"'}}]}]`))
	must.NoError(t, err)
	return c
}
