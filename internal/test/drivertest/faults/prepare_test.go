package faults

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
)

// faultMachine has one HCA and so few calls; the rest of its slots are empty.
const (
	faultMachine = "roce-lag"
	faultHCA     = "pci-0000-3b-00-0"
)

// callFault is a kind of fault in the calls of Prepare and Unprepare.
type callFault struct {
	name    string
	errno   unix.Errno
	lasting bool // the disk stays broken until the call has ended
	host    bool // also calls on sysfs and device nodes
	claim   func(n int) *resourceapi.ResourceClaim
}

var callFaults = []callFault{
	{"input and output error", unix.EIO, false, true, faultClaim},
	{"input and output error, a share", unix.EIO, false, true, faultShare},
	{"interrupted", unix.EINTR, false, true, faultClaim},
	{"disk full from here on", unix.ENOSPC, true, false, faultClaim},
	{"read-only from here on", unix.EROFS, true, false, faultClaim},
	{"no permission from here on", unix.EACCES, true, false, faultShare},
	{"no descriptors", unix.EMFILE, false, true, faultClaim},
}

func faultClaim(n int) *resourceapi.ResourceClaim { return drivertest.Claim(n, faultHCA) }

func faultShare(n int) *resourceapi.ResourceClaim {
	return drivertest.Share(n, map[string]string{"handles": "8", "objects": "1000"}, devicename.Shared(faultHCA))
}

// TestFaultInPrepare lets each call on a file that a Prepare makes fail in turn. The
// claim is then prepared, or the answer says what failed; nothing is ever wrong on
// disk; and the kubelet's next try succeeds.
func TestFaultInPrepare(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, faultMachine)
	f.start()
	for _, kind := range callFaults {
		failed := f.each(t, kind, func(n int, c *resourceapi.ResourceClaim, hit func() (sysfault.Call, bool)) {
			_, err := f.prepareOnce(c)
			call, fired := hit()
			if err != nil {
				if !fired || !tells(err, c, kind) {
					t.Errorf("%s at call %d, %v: Prepare says %v", kind.name, n, call, err)
				}
			}
			test.NoError(t, invariants.Always(f.Worker), test.Sprintf("%s at call %d, %v", kind.name, n, call))
			if _, err := f.prepareOnce(c); err != nil {
				t.Errorf("%s at call %d, %v: the next Prepare says %v", kind.name, n, call, err)
			}
			f.atRest(invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}})
			test.NoError(t, f.unprepareOnce(c), test.Sprintf("%s at call %d, %v: Unprepare", kind.name, n, call))
			f.atRest(invariants.Claims{})
		})
		t.Logf("%s: %d calls", kind.name, failed)
	}
}

// TestFaultInUnprepare is the same for Unprepare.
func TestFaultInUnprepare(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, faultMachine)
	f.start()
	for _, kind := range callFaults {
		failed := f.eachAfter(t, kind, func(c *resourceapi.ResourceClaim) {
			if _, err := f.prepareOnce(c); err != nil {
				t.Errorf("%s: Prepare says %v", kind.name, err)
			}
		}, func(n int, c *resourceapi.ResourceClaim, hit func() (sysfault.Call, bool)) {
			err := f.unprepareOnce(c)
			call, fired := hit()
			if err != nil && (!fired || !tells(err, c, kind)) {
				t.Errorf("%s at call %d, %v: Unprepare says %v", kind.name, n, call, err)
			}
			test.NoError(t, invariants.Always(f.Worker), test.Sprintf("%s at call %d, %v", kind.name, n, call))
			test.NoError(t, f.unprepareOnce(c),
				test.Sprintf("%s at call %d, %v: the next Unprepare", kind.name, n, call))
			f.atRest(invariants.Claims{})
		})
		t.Logf("%s: %d calls", kind.name, failed)
	}
}

// tells reports whether an error names the claim and what the kernel said.
func tells(err error, c *resourceapi.ResourceClaim, kind callFault) bool {
	named := strings.Contains(err.Error(), "claim "+c.Namespace+"/"+c.Name) || strings.Contains(err.Error(), string(c.UID))
	return named && strings.Contains(err.Error(), kind.errno.Error())
}

func (f *faulty) each(t *testing.T, kind callFault, try func(int, *resourceapi.ResourceClaim, func() (sysfault.Call, bool))) int {
	return f.eachAfter(t, kind, func(*resourceapi.ResourceClaim) {}, try)
}

// eachAfter tries something with a fault at its first call, at its second, and so on
// until none is left to fail, each time with a new claim. It returns how many were.
func (f *faulty) eachAfter(t *testing.T, kind callFault, first func(*resourceapi.ResourceClaim), try func(int, *resourceapi.ResourceClaim, func() (sysfault.Call, bool))) int {
	t.Helper()
	dirs := f.own()
	if kind.host {
		dirs = append(dirs, f.host()...)
	}
	for n := 1; !t.Failed(); n++ {
		c := kind.claim(n)
		f.AddClaim(c)
		first(c)
		shot := f.Arm(sysfault.Fault{N: n, Match: sysfault.Below(dirs...), Do: sysfault.Error(kind.errno), Lasting: kind.lasting})
		ended := false
		try(n, c, func() (sysfault.Call, bool) {
			shot.Disarm()
			ended = true
			return shot.Fired()
		})
		if _, fired := shot.Fired(); ended && !fired {
			return n - 1
		}
	}
	return 0
}
