package claimstore_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Claim reads the records of the claims on its own devices and no others: here
// all others are unreadable, which it would report.
func TestClaimReadsNoOtherRecords(t *testing.T) {
	s, dir := newStore(t)
	for i := range 1016 {
		uid := fmt.Sprintf("other%d", i)
		write(t, "{", dir, "claims", uid+".json")
		write(t, "", dir, "devices", fmt.Sprintf("d%d", i), uid)
	}
	claim(t, s, planOf("u1", "mine", "mine-too"))
}

// BenchmarkClaim must be flat: the number of claims on the node does not matter.
func BenchmarkClaim(b *testing.B) {
	for _, records := range []int{1, 100, 1016} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			s, _ := newStore(b)
			for i := range records {
				claim(b, s, planOf(types.UID(fmt.Sprintf("other%d", i)), fmt.Sprintf("d%d", i)))
			}
			p := planOf("u1", "mine")
			for b.Loop() {
				if err := s.Claim(context.Background(), p); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Remove(p.UID); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkShare claims a share of an HCA that many share.
func BenchmarkShare(b *testing.B) {
	for _, sharers := range []int{1, 127} {
		b.Run(fmt.Sprintf("sharers=%d", sharers), func(b *testing.B) {
			s, _ := newStore(b)
			for i := range sharers {
				claim(b, s, sharesOf(types.UID(fmt.Sprintf("other%d", i)), "shared-d1"))
			}
			p := sharesOf("u1", "shared-d1")
			for b.Loop() {
				claim(b, s, p)
				b.StopTimer()
				if err := s.Remove(p.UID); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
