package faults

import (
	"slices"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// TestRenumberedInPrepare has the kernel exchange the names of two HCAs at each call on a file that a Prepare
// makes, and say nothing of it: the driver's look at the host may be over when the event comes. The spec of the claim
// must lead to its HCA, unless the change came after the spec was written.
func TestRenumberedInPrepare(t *testing.T) {
	t.Parallel()
	const machine, hca = "hgx-h100", "pci-0000-19-00-0"
	f := newFaulty(t, machine)
	f.start()
	hosts := [2]*fixture.Machine{drivertest.Swapped(t, machine, "mlx5_0", "mlx5_1", "uverbs0", "uverbs1"), drivertest.Swapped(t, machine)}
	for n := 1; !t.Failed(); n++ {
		c := drivertest.Claim(n, hca)
		f.AddClaim(c)
		shot := f.Arm(sysfault.Fault{N: n, Match: sysfault.Below(append(f.own(), f.host()...)...), Do: func(sysfault.Call) unix.Errno {
			f.Become(t, hosts[(n-1)%2])
			return 0
		}})
		err := f.prepareOnce(c)
		shot.Disarm()
		call, fired := shot.Fired()
		test.NoError(t, err, test.Sprintf("renumbered at call %d, %v: Prepare", n, call))
		spec := drivertest.SpecPath(f.CDIDir, c)
		written := slices.IndexFunc(shot.Calls(), func(s sysfault.Call) bool { return s.Name == "rename" && s.To == spec })
		// A background thread of the driver may have made the call. The Prepare does not wait for the change then.
		if err := invariants.Always(f.Worker); err != nil && shot.Ended() <= written+1 {
			t.Errorf("renumbered at call %d, %v, over at call %d, and the spec was written at call %d: %v",
				n, call, shot.Ended(), written+1, err)
		}
		test.NoError(t, f.unprepareOnce(c))
		if !fired {
			t.Logf("%d calls", n-1)
			return
		}
	}
}
