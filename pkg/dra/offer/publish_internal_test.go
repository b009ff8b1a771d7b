package offer

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestPublish: what arrives at the API server is what package resources makes, whose golden files say the rest.
func TestPublish(t *testing.T) {
	for _, machine := range []string{"roce-sriov", "misbehaving"} {
		t.Run(machine, func(t *testing.T) {
			o := offers(t, drivertest.NewNode(t, machine), nil)
			want := policy.Default().Apply(rdmatest.Snapshot(t, machine), policy.State{}).Slices()
			got := drivertest.WaitPublished(t, o.Node)
			must.Eq(t, len(want), len(got), must.Sprint("slices are published"))
			for i, s := range got {
				for j := range s.Spec.Devices {
					s.Spec.Devices[j].Taints = nil // the tests of taints and of package health
				}
				test.Eq(t, want[i].Devices, s.Spec.Devices, test.Sprintf("slice %d", i))
				test.Eq(t, "rdma.dev", s.Spec.Driver)
				test.Eq(t, drivertest.NodeName, *s.Spec.NodeName)
				test.Eq(t, drivertest.NodeName, s.Spec.Pool.Name)
				test.True(t, len(s.OwnerReferences) == 1 && s.OwnerReferences[0].Name == drivertest.NodeName,
					test.Sprintf("slice %d is owned by %v, want the node, with which it goes", i, s.OwnerReferences))
			}
		})
	}
}

// TestNothingToPublish: a node without devices has no slice, since autoscalers compare only devices on a node that has
// one (kubernetes-sigs/cluster-autoscaler, pkg/simulator/utilization/info.go). The slice of an earlier driver is
// deleted. An event of the node has the reason.
func TestNothingToPublish(t *testing.T) {
	for _, tc := range []struct {
		name, machine, runtime string
		reason, kind           string
		rules                  []string
	}{
		{
			"exclusive namespaces", "exclusive-netns", "containerd://2.1.0",
			"network namespace mode is exclusive", "Warning", nil,
		},
		{"no RDMA", "none", "containerd://2.1.0", "the kernel lists no RDMA device in /sys/class/infiniband", "Normal", nil},
		{
			"containerd 1.7", "hgx-h100", "containerd://1.7.24",
			"leaves out CDI devices without an error unless enable_cdi", "Warning", nil,
		},
		{
			"policy", "roce-lag", "containerd://2.1.0",
			"rule off says so", "Warning", []string{"rules: [{name: off, publish: none}]"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, tc.machine)
			n.SetRuntime(tc.runtime)
			ofBefore := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "00000-of-before"}, Spec: resourceapi.ResourceSliceSpec{
					Driver: rdma.Domain, NodeName: new(drivertest.NodeName),
					Pool: resourceapi.ResourcePool{Name: drivertest.NodeName, Generation: 1, ResourceSliceCount: 1},
				},
			}
			_, err := n.Client(t).ResourceV1().ResourceSlices().Create(t.Context(), ofBefore, metav1.CreateOptions{})
			must.NoError(t, err)
			o := offers(t, n, policyOf(t, tc.rules...))
			o.eventually("there is an event and no slice", func() bool {
				events := o.reported.Events()
				return len(events) > 0 && len(o.Slices()) == 0
			})
			o.eventually("nothing counts as lost", func() bool {
				reason, notReady := o.Unpublished()
				return reason == nil && !notReady
			})
			events := o.reported.Events()
			must.Len(t, 1, events)
			test.Eq(t, event.NoDevices.Reason, events[0].Reason.Reason)
			test.Eq(t, tc.kind, events[0].Reason.Type)
			test.Eq(t, "Node", events[0].Object(drivertest.NodeName).Kind)
			test.StrContains(t, events[0].Message, tc.reason)
			test.Eq(t, 2, o.Writes(), test.Sprint("writes: of the slice of before, and its end"))
		})
	}
}

// TestHCAsComeAndGo: HCAs that come after the driver, a host that loses all, and a reload of the kernel module: each is
// one write. What claims hold stays published, with a taint that may be a write of its own.
func TestHCAsComeAndGo(t *testing.T) {
	t.Parallel()
	o := offers(t, drivertest.NewNode(t, "none"), policy.Default()) // one write a second at most
	all, gone := drivertest.Without(t, "hgx-h100"), drivertest.Without(t, "hgx-h100", "mlx5_", "uverbs", "umad", "issm")
	becomes := func(m *fixture.Machine, devices int) {
		t.Helper()
		o.Become(t, m)
		o.looks()
		drivertest.Eventually(t, func() error {
			if got := o.devices(""); len(got) != devices || (len(o.Slices()) == 0) != (devices == 0) {
				return fmt.Errorf("%d slices with %d devices, want %d devices", len(o.Slices()), len(got), devices)
			}
			return nil
		})
	}
	becomes(all, 9)
	becomes(gone, 0)
	becomes(all, 9)
	test.Eq(t, 3, o.Writes(), test.Sprint("writes"))
	o.holds(drivertest.Claim(1, dev0))
	becomes(gone, 1)
	o.taints(dev0, "rdma.dev/driver-unbound:NoSchedule")
	becomes(all, 9)
	o.taints(dev0, "")
	test.LessEq(t, 3+4, o.Writes(), test.Sprint("writes with those for the taint of what a claim holds"))
	events := o.reported.Events()
	test.LessEq(t, 5, len(events), test.Sprint("events"))
}

// TestConfirmedRuntime: an administrator who set enable_cdi says so.
func TestConfirmedRuntime(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.SetRuntime("containerd://1.7.24")
	o := offers(t, n, nil, func(o *offering) { o.config = func(c *Config) { c.RuntimeCDI = true } })
	slices := drivertest.WaitPublished(t, n)
	test.Len(t, 9, slices[0].Spec.Devices, test.Sprintf("published %v, want the nine HCAs", slices))
	events := o.reported.Events()
	test.SliceEmpty(t, events)
}

// TestPublishedAgain: slices that the API server does not take are tried again until it does.
func TestPublishedAgain(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	n.Fail(drivertest.CreateSlice, http.StatusServiceUnavailable)
	o := offers(t, n, nil)
	o.eventually("it was tried four times", func() bool { return n.Count(drivertest.CreateSlice) >= 4 })
	n.Fail(drivertest.CreateSlice, 0)
	drivertest.WaitPublished(t, n)
}

// TestDeviceInfo: devices with a resource name have a device information file when they are published.
func TestDeviceInfo(t *testing.T) {
	dir := drivertest.TempDir(t)
	n := drivertest.NewNode(t, "roce-sriov")
	offers(t, n, vfsForCNI(t), func(o *offering) { o.config = func(c *Config) { c.DeviceInfoDir = dir } })
	drivertest.WaitPublished(t, n)
	data, err := os.ReadFile(filepath.Join(dir, "example.com-vf-0000:3b:00.3-device.json"))
	must.NoError(t, err)
	test.StrContains(t, string(data), `"pci-address":"0000:3b:00.3","rdma-device":"mlx5_3",`+
		`"pf-pci-address":"0000:3b:00.0"`)
	test.Len(t, 8, drivertest.Files(t, dir), test.Sprint("files, one for each of 8 VFs"))
}

// TestDeviceInfoMissing: a directory that is missing holds up nothing, and the status page tells.
func TestDeviceInfoMissing(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	dir := filepath.Join(drivertest.TempDir(t), "missing")
	o := offers(t, n, vfsForCNI(t), func(o *offering) { o.config = func(c *Config) { c.DeviceInfoDir = dir } })
	drivertest.WaitPublished(t, n)
	test.SliceContains(t, o.Notes(), "DeviceInfoNotWritten "+dir)
}

// vfsForCNI is a policy that names VFs for CNI plugins.
func vfsForCNI(t *testing.T) *policy.Config {
	return policyOf(t, "rules: [{name: vfs, resourceName: example.com/vf, selectors: "+
		`[{cel: {expression: 'device.attributes["rdma.dev"].function == "vf"'}}]}]`)
}

// TestStorm: a link that fails and comes back hundreds of times costs at most one write a second, of its own slice, and
// ends right.
func TestStorm(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	o := offers(t, n, policy.Default(), func(o *offering) {
		o.health = health.DefaultConfig()
		o.health.Up = 2 * time.Second
	})
	o.taints(hca0, "")
	before := n.Slices()
	updates, start := n.Count(drivertest.UpdateSlice), time.Now()
	for range 300 {
		rdmatest.SetPort(t, n.Root, "mlx5_0", "1: DOWN", "3: Disabled")
		o.looks("mlx5_0")
		rdmatest.SetPort(t, n.Root, "mlx5_0", "4: ACTIVE", "5: LinkUp")
		o.looks("mlx5_0")
	}
	o.taints(hca0, "rdma.dev/port-down:NoSchedule")
	o.taints(hca0, "")
	took := time.Since(start)
	o.Stop()
	got := n.Count(drivertest.UpdateSlice) - updates
	t.Logf("300 flaps in %v: %d writes", took, got)
	test.LessEq(t, int(took/time.Second)+2, got, test.Sprintf("writes in %v", took))
	test.NoError(t, othersUntouched(before, n.Slices(), hca0))
}

// othersUntouched checks that no slice was written but that of a device.
func othersUntouched(before, after []resourceapi.ResourceSlice, device string) error {
	if len(before) != len(after) {
		return fmt.Errorf("there are %d slices, and were %d", len(after), len(before))
	}
	for i := range before {
		if before[i].UID != after[i].UID {
			return fmt.Errorf("slice %s was deleted and created again", after[i].Name)
		}
		has := slices.Contains(drivertest.DeviceNames(after[i:i+1]), device)
		if before[i].ResourceVersion != after[i].ResourceVersion && !has {
			return fmt.Errorf("slice %s was written, but has no device %s", after[i].Name, device)
		}
	}
	return nil
}

// lacks counts how often the log has that the API server lacks a feature.
func (o *offering) lacks() int {
	return strings.Count(o.Log.String(), "The API server does not have an optional feature")
}
