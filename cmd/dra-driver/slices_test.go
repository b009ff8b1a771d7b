package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

const slicesUID = "22222222-0000-4000-8000-000000000001"

// slicesOf runs dra-driver slices in the pod of a node's driver.
func slicesOf(t *testing.T, n *drivertest.Node, file string) (code int, devices map[string]resourceapi.Device, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), drivertest.Binary(t), "slices", "--kubelet-dir", n.Dir, "-o", "json")
	cmd.Env = []string{"POD_UID=" + slicesUID}
	cmd.Stdin = strings.NewReader(file)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	code, stderr = cmd.ProcessState.ExitCode(), errs.String()
	if code == exitcode.OK || code == exitUnapplied {
		var list resourceapi.ResourceSliceList
		if err := json.Unmarshal([]byte(out.String()), &list); err != nil || list.Kind != "ResourceSliceList" {
			t.Fatalf("%v: it prints %s", err, out.String())
		}
		devices = devicesOf(list.Items)
	} else if out.Len() > 0 {
		t.Errorf("exit code %d, and it prints %s", code, out.String())
	}
	return code, devices, stderr
}

func devicesOf(in []resourceapi.ResourceSlice) map[string]resourceapi.Device {
	out := map[string]resourceapi.Device{}
	for _, s := range in {
		for _, d := range s.Spec.Devices {
			for i := range d.Taints {
				d.Taints[i].TimeAdded = nil // the API server sets it
			}
			out[d.Name] = d
		}
	}
	return out
}

// TestSlices: what dra-driver slices prints of a file is what the driver publishes once it has the file: for claims
// that it has prepared, and for an API server without a feature. Asking changes nothing.
func TestSlices(t *testing.T) {
	const header = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"
	files := []string{
		header + "rules: [{name: all, publish: both, shares: 4, attributes: {tier: {string: gold}}}]\npartitioning: true\n",
		header + "rules: [{name: all, publish: none}]\n",
		header + "rules: [{name: all, publish: shared, rails: 3}]\ntaints: {port-down: NoExecute}\n",
	}
	for _, gates := range [][]string{nil, {drivertest.GateCounters}} {
		t.Run(fmt.Sprint(gates), func(t *testing.T) {
			n := drivertest.NewNode(t, "roce-sriov")
			n.GatesOff(gates...)
			file := filepath.Join(t.TempDir(), "config.yaml")
			use := func(text string) {
				t.Helper()
				must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			}
			use(files[0])
			n.Start(t, slicesUID, "--config", file)
			held := drivertest.DeviceNames(drivertest.WaitPublished(t, n))[0]
			same := func(text string, would map[string]resourceapi.Device) error {
				if got := devicesOf(n.Slices()); !equality.Semantic.DeepEqual(got, would) {
					return fmt.Errorf("%s: it printed (-) and published (+) are %s", text, cmp.Diff(would, got))
				}
				return nil
			}
			settle := func() {
				t.Helper()
				drivertest.Eventually(t, func() error {
					_, would, _ := slicesOf(t, n, files[0])
					return same(files[0], would)
				})
			}
			settle() // the driver learns what the API server drops
			claim := drivertest.Claim(0, held)
			n.AddClaim(claim)
			mustPrepare(t, n, claim)
			settle() // the claim may hold a device that nobody else can have any more
			drivertest.Eventually(t, func() error { return confirmed(t, n, files[2]) })
			for _, text := range files[1:] {
				before, written := n.Slices(), n.LastSliceWrite()
				code, would, stderr := slicesOf(t, n, text)
				wantCode := exitcode.OK
				if strings.Contains(text, "rails: 3") {
					wantCode = exitUnapplied
				}
				if code != wantCode || n.LastSliceWrite() != written || !equality.Semantic.DeepEqual(before, n.Slices()) {
					t.Fatalf("%s: exit code %d, %s; want %d and nothing written", text, code, stderr, wantCode)
				}
				if _, ok := would[held]; !ok {
					t.Errorf("%s: the device of a claim is not among %v", text, would)
				}
				use(text)
				drivertest.Eventually(t, func() error { return same(text, would) })
			}
		})
	}
}

// confirmed returns an error while the driver would not delete pods for the port that is down: the fault is too young.
// What it prints before that is not what it publishes after that.
func confirmed(t *testing.T, n *drivertest.Node, file string) error {
	t.Helper()
	_, would, _ := slicesOf(t, n, file)
	for _, d := range would {
		for _, taint := range d.Taints {
			if taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
				return nil
			}
		}
	}
	return errors.New("no device has a taint NoExecute")
}

// TestMissingFeature: where the API server lacks shares, status, explain and slices say so, and explain promises none.
// A feature that the driver has not used yet is not seen.
func TestMissingFeature(t *testing.T) {
	const lacks = "the API server lacks feature gate DRAConsumableCapacity, off by default before Kubernetes 1.36: " +
		"a shared HCA and a group are for one claim at a time"
	const header = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"
	n := drivertest.NewNode(t, "roce-sriov")
	n.GatesOff(drivertest.GateConsumable)
	n.Start(t, slicesUID, "--config", "testdata/shared.yaml")
	inPod := []string{"--kubelet-dir", n.Dir, "--pod-uid", slicesUID}
	drivertest.Eventually(t, func() error {
		if _, stdout, stderr := invoke(t, nil, append([]string{"status"}, inPod...)...); !strings.Contains(stdout, lacks) {
			return fmt.Errorf("status: %s%s", stdout, stderr)
		}
		return nil
	})
	explain := append([]string{"explain", "--host-root", n.Root, "--config", "testdata/shared.yaml"}, inPod...)
	_, stdout, stderr := invoke(t, nil, explain...)
	if !strings.Contains(stdout, lacks) || strings.Contains(stdout, "shares 63") {
		t.Errorf("explain: %s%s", stdout, stderr)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.NoError(t, os.WriteFile(file, []byte(header+
		"partitioning: true\nrules:\n- {name: all, publish: both}\n- {name: rest}\n"), 0o644))
	_, stdout, stderr = invoke(t, nil, append([]string{"slices", "-o", "json", "--config", file}, inPod...)...)
	for _, want := range []string{
		lacks, "not seen whether the API server has feature gate DRAPartitionableDevices",
		"rule rest decides on no HCA of this host: rules above it match them first",
	} {
		test.StrContains(t, stdout, want, test.Sprintf("slices: %s", stderr))
	}
}

// TestSlicesRefused: a bad file is refused as it is at the start, and a driver that cannot be asked is an error.
func TestSlicesRefused(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	driver := n.Start(t, slicesUID)
	const bad = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\nrules: [{name: a, publish: everyone}]\n"
	if code, _, stderr := slicesOf(t, n, bad); code != exitcode.Usage ||
		!strings.Contains(stderr, `read policy "-": line 3: rules[0].publish: want none, exclusive`) {
		t.Errorf("a bad file: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := slicesOf(t, n, strings.Repeat("#", 1<<20)); code != exitcode.Usage ||
		!strings.Contains(stderr, "larger than 256 KiB") {
		t.Errorf("a large file: exit code %d, %s", code, stderr)
	}
	driver.Terminate()
	good := strings.Replace(bad, "everyone", "shared", 1)
	if code, _, stderr := slicesOf(t, n, good); code != exitcode.Failed ||
		!strings.Contains(stderr, "is it running, and is this its pod?") {
		t.Errorf("without a driver: exit code %d, %s", code, stderr)
	}
	code, _, stderr := invoke(t, nil, "slices", "-o", "table")
	if code != exitcode.Usage || !strings.Contains(stderr, `--output "table": want one of [json yaml]`) {
		t.Errorf("a format that it lacks: exit code %d, %s", code, stderr)
	}
}
