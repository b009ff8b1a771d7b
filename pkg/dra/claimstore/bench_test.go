package claimstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Claim reads the records of the claims that it could exclude and no others: here
// all others are unreadable, which it would report.
func TestClaimReadsNoOtherRecords(t *testing.T) {
	s, dir := newStore(t)
	for i := range 1016 {
		uid := fmt.Sprintf("other%d", i)
		write(t, "{", dir, "claims", uid+".json")
		write(t, "", dir, "devices", fmt.Sprintf("d%d", i), uid)
	}
	claim(t, s, planOf("u1", "mine", "mine-too"))

	write(t, "{", dir, "claims", "share.json")
	write(t, "", dir, "devices", "shared", "share.shared")
	claim(t, s, sharesOf("u2", "shared"))
	monitor := planOf("u3", "d1")
	monitor.Devices[0].AdminAccess = true
	claim(t, s, monitor)
}

// BenchmarkClaim must be flat: the number of claims on the node does not matter, nor that
// of shares of the claim's own HCA.
func BenchmarkClaim(b *testing.B) {
	for _, records := range []int{1, 100, 1016} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			s, _ := newStore(b)
			for i := range records {
				claim(b, s, planOf(types.UID(fmt.Sprintf("other%d", i)), fmt.Sprintf("d%d", i)))
			}
			claims(b, s, planOf("u1", "mine"))
		})
	}
	for _, shares := range []int{1, 62} {
		b.Run(fmt.Sprintf("shares=%d", shares), func(b *testing.B) {
			s, _ := newStore(b)
			for i := range shares {
				claim(b, s, sharesOf(types.UID(fmt.Sprintf("other%d", i)), "shared-d1"))
			}
			claims(b, s, sharesOf("u1", "shared-d1"))
		})
	}
}

// claims times the claim of a plan that is not claimed.
func claims(b *testing.B, s *claimstore.Store, p *plan.Plan) {
	for b.Loop() {
		must.NoError(b, s.Claim(context.Background(), p))
		b.StopTimer()
		must.NoError(b, s.Remove(p.UID))
		b.StartTimer()
	}
}

// BenchmarkList is a look at all records, as after each event of the kernel.
func BenchmarkList(b *testing.B) {
	s, _ := newStore(b)
	for i := range 1016 {
		claim(b, s, planOf(types.UID(fmt.Sprintf("other%d", i)), fmt.Sprintf("d%d", i)))
	}
	for b.Loop() {
		_, err := s.List()
		must.NoError(b, err)
	}
}
