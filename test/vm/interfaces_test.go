package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The tests of the driver's module that need interfaces that not every kernel can make: ipvlans, VLANs and bonds.
func TestInterfaces(t *testing.T) {
	const module = "github.com/rdma-dev/dra-driver-rdma/"
	dir := t.TempDir()
	launcher := filepath.Join(dir, "launch")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", launcher, module+"internal/test/sysfault/launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// What also other kernels have is proven on them, by the same tests.
	ofPodnet := "^Test(Ipvlan|OtherKind|BondTraffic|VLAN.*)$|^Test(Attach|Traffic)$/^ipvlan$|^TestBond$/^bond0"
	ofAttach := "^Test(OtherKind|LastOfVLAN|Cost)$/^(ipvlan|macvlan.100)?$"
	if needs.IsLong() { // what fails, and a driver that is killed at each call
		ofPodnet += "|^TestBond$|^TestAttachFails$/ipvlan$"
		ofAttach += "|^TestKilled$/^(macvlan.100|ipvlan)$"
	}
	for pkg, tests := range map[string]string{
		"internal/kernel/podnet": ofPodnet,
		"pkg/dra/attach":         ofAttach,
	} {
		t.Run(filepath.Base(pkg), func(t *testing.T) {
			vmtest.Run(t, vmtest.Open(t), module+pkg, vm.Cmd{
				Timeout: 20 * time.Minute, Shares: []vm.Share{{Path: dir, ReadOnly: true}},
				Env: []string{sysfault.Launcher + "=" + launcher},
			}, "-test.run="+tests)
		})
	}
}
