package claims

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// slowOffer is an Offer that holds up each Prepare in the middle, until it is let go.
type slowOffer struct {
	plainOffer
	calls atomic.Int32
	letGo chan struct{}
}

func (o *slowOffer) Facts(ctx context.Context, host *node.Host, claim *resourceapi.ResourceClaim) plan.Facts {
	o.calls.Add(1)
	<-o.letGo
	return o.plainOffer.Facts(ctx, host, claim)
}

// TestPrepareKeepsLock: while a Prepare is at work on a claim, everybody else who would change the claim waits. So an
// Unprepare in the meantime leaves nothing behind.
func TestPrepareKeepsLock(t *testing.T) {
	const uid = "uid-1"
	for name, tc := range map[string]struct {
		other func(context.Context, *Claims, *resourceapi.ResourceClaim) error
		calls int32 // of Facts, in the end
		stays bool  // the record and the spec
	}{
		"Prepare": {func(ctx context.Context, c *Claims, claim *resourceapi.ResourceClaim) error {
			return c.Prepare(ctx, []*resourceapi.ResourceClaim{claim})[uid].Err
		}, 2, true},
		"Unprepare": {func(ctx context.Context, c *Claims, _ *resourceapi.ResourceClaim) error {
			return c.Unprepare(ctx, []kubeletplugin.NamespacedObject{{UID: uid}})[uid]
		}, 1, false},
		"restoring the spec": {func(ctx context.Context, c *Claims, _ *resourceapi.ResourceClaim) error {
			return c.restoreClaim(ctx, uid)
		}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			worker := drivertest.NewWorker(t, "hgx-h100")
			store, n := openNode(t, worker)
			claim := drivertest.Claim(1, dev0)
			claim.UID = uid
			synctest.Test(t, func(t *testing.T) {
				offer := &slowOffer{letGo: make(chan struct{})}
				c := New(Config{Node: n, Store: store, Offer: offer, Report: &reported{}, CDIDir: worker.CDIDir})
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { first <- c.Prepare(t.Context(), []*resourceapi.ResourceClaim{claim})[uid].Err }()
				synctest.Wait()
				go func() { second <- tc.other(t.Context(), c, claim) }()
				synctest.Wait()
				calls := offer.calls.Load()
				test.True(t, calls == 1 && len(second) == 0,
					test.Sprintf("it did not wait: %d Prepares are at work, and %d calls have ended", calls,
						len(second)))
				close(offer.letGo)
				for _, err := range []error{<-first, <-second} {
					test.NoError(t, err)
				}
				p, err := store.Get(uid)
				ids, errIDs := c.specs.IDs(cdi.KindClaim)
				test.True(t, (p != nil) == tc.stays && (len(ids) > 0) == tc.stays && err == nil &&
					errIDs == nil,
					test.Sprintf("left are the record %v (%v) and the specs %v (%v)", p, err, ids, errIDs))
				test.Eq(t, tc.calls, offer.calls.Load(), test.Sprint("Prepares"))
			})
		})
	}
}
