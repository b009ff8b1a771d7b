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
	ofPodnet := "^Test(Ipvlan|BondTraffic|VLAN.*)$|^Test(Attach|Traffic)$/^ipvlan$|^TestBond$/^bond0,_macvlan$" +
		"|^TestOtherKind$/^(ipvlan,_other_on_the_pod|macvlan,_other_on_the_host)$"
	ofAttach := "^Test(OtherKind|LastOfVLAN)$"
	if needs.IsLong() { // the other kinds, what fails, what it costs, and a driver that is killed at each call
		ofPodnet += "|^Test(Bond|OtherKind)$|^TestAttachFails$/ipvlan$"
		ofAttach += "|^Test(Cost|Killed)$/^(macvlan.100|ipvlan)$"
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
