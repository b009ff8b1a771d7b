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
	ofAttach := "^Test(OtherKind|LastOfVLAN|Cost)$/^(ipvlan|macvlan.100)?$"
	if needs.IsLong() { // TestKilled of pkg/dra/attach ends the driver at each call with the kinds that each kernel has
		ofAttach += "|^TestKilled$/^(macvlan.100|ipvlan)$"
	}
	for pkg, tests := range map[string]string{
		// What fails is tried with the kind that the host's kernel may lack.
		"internal/kernel/podnet": "^Test(Attach|Traffic|Ipvlan|OtherKind|Bond|BondTraffic|VLAN.*)$|" +
			"^TestAttachFails$/ipvlan$",
		"pkg/dra/attach": ofAttach,
	} {
		t.Run(filepath.Base(pkg), func(t *testing.T) {
			vmtest.Run(t, vmtest.Open(t), module+pkg, vm.Cmd{
				Timeout: 20 * time.Minute, Shares: []vm.Share{{Path: dir, ReadOnly: true}},
				Env: []string{sysfault.Launcher + "=" + launcher},
			}, "-test.run="+tests)
		})
	}
}
