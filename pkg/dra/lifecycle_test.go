package dra_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestCleanStop: the sockets go, since a stale one keeps a kubelet busy; slices
// and claims stay.
func TestCleanStop(t *testing.T) {
	for name, uid := range map[string]types.UID{"no pod": "", "rolling update": "4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a11"} {
		t.Run(name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			d := start(t, n, func(c *dra.Config) { c.PodUID = uid })
			c := drivertest.Claim(1, dev0)
			n.AddClaim(c)
			prepare(t, n, c)
			before := drivertest.WaitPublished(t, n)
			d.stop()
			for _, pattern := range []string{"plugins/rdma.dev/*.sock", "plugins_registry/*"} {
				left, err := filepath.Glob(filepath.Join(n.Dir, pattern))
				test.True(t, err == nil && len(left) == 0, test.Sprintf("left of the sockets: %v, %v", left, err))
			}
			n.WaitForPlugins(0)
			wantFiles(t, n, c)
			test.Eq(t, len(before), len(n.Slices()), test.Sprint("slices are left"))
		})
	}
}

// TestStopFinishesCalls: a driver that is stopped, such as the old one of an update, finishes
// what the kubelet has asked it for. A call that breaks off would cost the pod a minute.
func TestStopFinishesCalls(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	release := n.Hold(drivertest.GetClaim)
	prepared := make(chan error, 1)
	go func() {
		response, err := n.Prepare(drivertest.Context(t), c)
		if err == nil {
			_, err = drivertest.Devices(response, c)
		}
		prepared <- err
	}()
	drivertest.Eventually(t, func() error {
		if n.Count(drivertest.GetClaim) == 0 {
			return errors.New("the driver has not asked for the claim")
		}
		return nil
	})
	d.Cancel()
	d.WaitLog("Stopping")
	release()
	test.NoError(t, <-prepared)
	d.stop()
	wantFiles(t, n, c)
}

// TestSocketsOfTheDead: the sockets of a driver that was killed and whose pod is gone go when
// another driver starts; those of one that lives beside it stay.
func TestSocketsOfTheDead(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	hourAgo := time.Now().Add(-time.Hour)
	age := func(paths ...string) {
		for _, path := range paths {
			must.NoError(t, os.Chtimes(path, hourAgo, hourAgo))
		}
	}
	const alive, dead, next types.UID = "4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a11", "4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a12", "4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a13"
	files := func(uid types.UID) []string {
		return []string{filepath.Join(n.Dir, "plugins_registry", "rdma.dev-"+string(uid)+"-reg.sock"), filepath.Join(n.PluginDir(), "dra-"+string(uid)+".sock")}
	}
	start(t, n, func(c *dra.Config) { c.PodUID = alive })
	age(files(alive)...)
	for _, path := range files(dead) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		must.NoError(t, err)
		l.SetUnlinkOnClose(false)
		l.Close()
		age(path)
	}
	start(t, n, func(c *dra.Config) { c.PodUID = next })
	for _, pattern := range []string{filepath.Join(n.Dir, "plugins_registry", "*.sock"), filepath.Join(n.PluginDir(), "*.sock")} {
		left, err := filepath.Glob(pattern)
		test.True(t, err == nil && len(left) == 2 && !strings.Contains(strings.Join(left, " "), string(dead)),
			test.Sprintf("left are %v (%v), want those of two drivers that live", left, err))
	}
}

// TestHealth: the kubelet hears of every device: which has no port that is up,
// and why, within the lease.
func TestHealth(t *testing.T) {
	n := drivertest.NewNode(t, "misbehaving")
	start(t, n)
	report, err := n.Health(drivertest.Context(t))
	must.NoError(t, err)
	slices := drivertest.WaitPublished(t, n)
	got, want := len(report), len(drivertest.DeviceNames(slices))
	test.Eq(t, want, got, test.Sprint("devices are reported"))
	seen := map[healthpb.HealthStatus]int{}
	for _, d := range report {
		seen[d.Health]++
		test.True(t, d.Device.PoolName == drivertest.NodeName && strings.HasPrefix(d.Device.DeviceName, "pci-"),
			test.Sprintf("device is %v", d.Device))
		test.Eq(t, (d.Message == ""), (d.Health == healthpb.HealthStatus_HEALTHY),
			test.Sprintf("%s is %v, with message %q", d.Device.DeviceName, d.Health, d.Message))
		if age := time.Since(time.Unix(d.LastUpdatedTime, 0)); age > 30*time.Second || d.HealthCheckTimeoutSeconds != 30 {
			t.Errorf("%s: looked at %v ago, for %d s", d.Device.DeviceName, age, d.HealthCheckTimeoutSeconds)
		}
	}
	test.True(t, seen[healthpb.HealthStatus_HEALTHY] != 0 && len(seen) >= 2,
		test.Sprintf("health is %v, want some healthy and some not", seen))
}

func TestConfigValidate(t *testing.T) {
	good := dra.Config{NodeName: "n", HostRoot: "/", KubeletDir: "/var/lib/kubelet", StateDir: "/run/rdma.dev/state", CDIDir: "/var/run/cdi", Site: plan.DefaultSite()}
	test.NoError(t, good.Validate())
	for name, tc := range map[string]struct {
		change func(*dra.Config)
		want   string
	}{
		"no node name":           {func(c *dra.Config) { c.NodeName = "" }, "set --node-name or NODE_NAME"},
		"relative host root":     {func(c *dra.Config) { c.HostRoot = "host" }, "host root is not an absolute path: \"host\""},
		"empty kubelet dir":      {func(c *dra.Config) { c.KubeletDir = "" }, "kubelet directory is not an absolute path"},
		"relative CDI directory": {func(c *dra.Config) { c.CDIDir = "cdi" }, "CDI directory is not an absolute path: \"cdi\""},
		"bad memlock":            {func(c *dra.Config) { c.Site.Memlock = "lots" }, "want unlimited, inherit or a positive whole number of bytes"},
	} {
		cfg := good
		tc.change(&cfg)
		err := cfg.Validate()
		test.ErrorContains(t, err, tc.want, test.Sprint(name))
		_, err = dra.New(cfg, nil)
		test.Error(t, err, test.Sprintf("%s: a driver was made", name))
	}
}

// TestNoRegistrationDirectory: without the kubelet's directory the driver ends
// with an error that names it.
func TestNoRegistrationDirectory(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	cfg := config(n)
	cfg.KubeletDir = drivertest.TempDir(t)
	d, err := dra.New(cfg, n.Client(t))
	must.NoError(t, err)
	test.ErrorContains(t, d.Run(drivertest.Context(t)), "register with the kubelet below \""+cfg.KubeletDir)
}
