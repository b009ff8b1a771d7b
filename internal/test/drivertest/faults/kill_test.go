package faults

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// TestKillAtEachCall kills the driver with kill -9 instead of each call that changes its own files in turn: of a
// Prepare, of an Unprepare, of a start. What it leaves is never wrong, the next driver brings it in order before it
// serves, and the kubelet's next try succeeds. A kill at a call that changes nothing leaves the same files as a kill at
// the next call that changes some.
func TestKillAtEachCall(t *testing.T) {
	t.Parallel()
	f, live := newDisordered(t)
	c := drivertest.Claim(2, faultHCA)
	f.AddClaim(c)
	p := f.start()
	must.NoError(t, f.unprepareOnce(live))
	for _, call := range []struct {
		name  string
		first func(*resourceapi.ResourceClaim) error
		do    func(*resourceapi.ResourceClaim) error
	}{
		{"Prepare", func(*resourceapi.ResourceClaim) error { return nil }, f.prepareOnce},
		{"Prepare again", f.prepareOnce, f.prepareOnce},
		{"Unprepare", f.prepareOnce, f.unprepareOnce},
	} {
		for n := 1; !t.Failed(); n++ {
			f.sweep()
			must.NoError(t, call.first(c), must.Sprintf("before call %d of %s", n, call.name))
			shot := f.Arm(sysfault.Fault{N: n, Match: f.changes, Do: sysfault.Kill})
			err := call.do(c)
			at, fired := shot.Fired()
			shot.Disarm()
			if !fired {
				t.Logf("%s: %d calls", call.name, n-1)
				break
			}
			if err == nil {
				t.Logf("%s: call %d, %v, came after the answer", call.name, n, at)
			}
			f.end(p)
			test.NoError(t, invariants.Always(f.Worker), test.Sprintf("%s, killed at call %d, %v", call.name, n, at))
			p = f.start()
			test.NoError(t, invariants.AtRest(f.Worker, invariants.Claims{Open: []*resourceapi.ResourceClaim{c}}),
				test.Sprintf("%s, killed at call %d, %v, after the restart", call.name, n, at))
			test.NoError(t, call.do(c), test.Sprintf("%s, killed at call %d, %v, the next try", call.name, n, at))
			test.NoError(t, f.unprepareOnce(c), test.Sprintf("%s, killed at call %d, %v, the end", call.name, n, at))
			f.atRest(invariants.Claims{})
		}
		test.NoError(t, f.unprepareOnce(c))
	}
}

// changes reports whether a call changes the driver's own files. A long test takes all calls on them.
func (f *faulty) changes(call sysfault.Call) bool {
	return sysfault.Below(f.own()...)(call) && (call.Changes() || needs.IsLong())
}

// TestKillInStart is the same for a driver that finds its files in disorder.
func TestKillInStart(t *testing.T) {
	t.Parallel()
	f, c := newDisordered(t)
	prepared := invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}}
	for n := 1; !t.Failed(); n++ {
		f.disorder(c)
		shot := f.Arm(sysfault.Fault{N: n, Match: f.changes, Do: sysfault.Kill})
		p := f.launch()
		f.registered(p)
		at, fired := shot.Fired()
		shot.Disarm()
		f.end(p)
		if err := invariants.Always(f.Worker); err != nil && fired {
			t.Errorf("killed at call %d, %v: %v", n, at, err)
		}
		p = f.start()
		test.NoError(t, invariants.AtRest(f.Worker, prepared),
			test.Sprintf("killed at call %d, %v, after the restart", n, at))
		f.end(p)
		if !fired {
			t.Logf("%d calls", n-1)
			return
		}
	}
}
