package faults

import (
	"context"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
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
	long    bool // the driver takes it as another one of these, so that it is for make test-long
	claim   func(n int) *resourceapi.ResourceClaim
}

var callFaults = []callFault{
	{"input and output error", unix.EIO, false, true, false, faultClaim},
	{"input and output error, a share", unix.EIO, false, true, true, faultShare},
	{"interrupted", unix.EINTR, false, true, false, faultClaim},
	{"disk full from here on", unix.ENOSPC, true, false, false, faultShare},
	{"read-only from here on", unix.EROFS, true, false, true, faultClaim},
	{"no permission from here on", unix.EACCES, true, false, true, faultShare},
	{"no descriptors", unix.EMFILE, false, true, true, faultClaim},
}

func faultClaim(n int) *resourceapi.ResourceClaim { return drivertest.Claim(n, faultHCA) }

func faultShare(n int) *resourceapi.ResourceClaim {
	return drivertest.Share(n, map[string]string{"handles": "8", "objects": "1000"}, devicename.Shared(faultHCA))
}

// TestFaultInCall lets each call of a Prepare or an Unprepare on a file fail in turn. It then succeeds, or the
// answer says what failed.
func TestFaultInCall(t *testing.T) {
	t.Parallel()
	for _, call := range []kubeletCall{prepareCall, unprepareCall} {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, faultMachine)
			f.start()
			for _, kind := range callFaults {
				if kind.long && !needs.IsLong() {
					continue
				}
				dirs := f.own()
				if kind.host {
					dirs = append(dirs, f.host()...)
				}
				fault := sysfault.Fault{Match: sysfault.Below(dirs...), Do: sysfault.Error(kind.errno), Lasting: kind.lasting}
				arm := func(context.CancelFunc) sysfault.Fault { return fault }
				f.eachCall(t, call, kind.claim, arm, func(c *resourceapi.ResourceClaim, fired bool, err error) {
					if err != nil && (!fired || !tells(err, c, kind)) {
						t.Errorf("%s: %s says %v", kind.name, call.name, err)
					}
				})
			}
		})
	}
}

// kubeletCall is a call of the kubelet, and what it did before.
type kubeletCall struct {
	name      string
	first, do func(context.Context, *drivertest.Node, *resourceapi.ResourceClaim) error
	prepared  bool // the claim is prepared then
}

var (
	prepareCall   = kubeletCall{"Prepare", nothing, prepare, true}
	unprepareCall = kubeletCall{"Unprepare", prepare, unprepare, false}
)

func nothing(context.Context, *drivertest.Node, *resourceapi.ResourceClaim) error { return nil }

// eachCall has the kubelet make a call with a fault at the first call on a file, at the second, and so on until none is
// left, each time with a new claim. The fault may make the kubelet give up. Nothing is ever wrong on disk, and the
// kubelet's next try succeeds.
func (f *faulty) eachCall(
	t *testing.T, call kubeletCall, claim func(n int) *resourceapi.ResourceClaim,
	fault func(giveUp context.CancelFunc) sysfault.Fault,
	check func(c *resourceapi.ResourceClaim, fired bool, err error),
) {
	t.Helper()
	for n := 1; !t.Failed(); n++ {
		c := claim(n)
		f.AddClaim(c)
		must.NoError(t, call.first(drivertest.Context(t), f.Node, c))
		ctx, giveUp := context.WithCancel(drivertest.Context(t))
		armed := fault(giveUp)
		armed.N = n
		shot := f.Arm(armed)
		err := call.do(ctx, f.Node, c)
		giveUp()
		shot.Disarm()
		at, fired := shot.Fired()
		check(c, fired, err)
		where := test.Sprintf("%s, a fault at call %d, %v", call.name, n, at)
		test.NoError(t, invariants.Always(f.Worker), where)
		test.NoError(t, call.do(drivertest.Context(t), f.Node, c), where, test.Sprint("the next try"))
		if call.prepared {
			f.atRest(invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}})
		}
		test.NoError(t, f.unprepareOnce(c), where, test.Sprint("the end"))
		f.atRest(invariants.Claims{})
		if !fired {
			t.Logf("%s: %d calls", call.name, n-1)
			return
		}
	}
}

// tells reports whether an error names the claim and what the kernel said.
func tells(err error, c *resourceapi.ResourceClaim, kind callFault) bool {
	named := strings.Contains(err.Error(), "claim "+c.Namespace+"/"+c.Name) || strings.Contains(err.Error(), string(c.UID))
	return named && strings.Contains(err.Error(), kind.errno.Error())
}
