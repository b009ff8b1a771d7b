package faults

import (
	"context"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// TestKubeletGivesUp has the kubelet give up on a call at each call on a file that the
// driver makes for it, as when its deadline is over or it is restarted. What the
// kubelet knows of the claim is then nothing, and its next try succeeds.
func TestKubeletGivesUp(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, faultMachine)
	f.start()
	match := sysfault.Below(append(f.own(), f.host()...)...)
	for _, call := range []kubeletCall{prepareCall, unprepareCall} {
		f.eachCall(t, call, faultClaim, func(giveUp context.CancelFunc) sysfault.Fault {
			return sysfault.Fault{Match: match, Do: func(sysfault.Call) unix.Errno {
				giveUp()
				return 0
			}}
		}, func(*resourceapi.ResourceClaim, bool, error) {})
	}
}

// TestEndMeetsPrepare: the kubelet gives up on a Prepare and ends the claim while the
// driver is still at work, at each call on a file in turn. Nothing is left.
func TestEndMeetsPrepare(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, faultMachine)
	f.start()
	for n := 1; !t.Failed(); n++ {
		c := drivertest.Claim(n, faultHCA)
		f.AddClaim(c)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		shot := f.Arm(sysfault.Fault{N: n, Match: sysfault.Below(f.own()...), Do: func(sysfault.Call) unix.Errno {
			cancel()
			go func() { ended <- f.unprepareOnce(c) }()
			return 0
		}})
		_, _ = f.Prepare(ctx, c)
		cancel()
		if _, fired := shot.Fired(); !fired {
			t.Logf("%d calls", n-1)
			return
		}
		test.NoError(t, <-ended, test.Sprintf("given up at call %d, the end", n))
		shot.Disarm()
		f.atRest(invariants.Claims{})
	}
}
