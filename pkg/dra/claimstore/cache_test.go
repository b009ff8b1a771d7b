package claimstore_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestOtherProcess: what another process writes over a record, or removes, is seen at once
// by one that has read it before.
func TestOtherProcess(t *testing.T) {
	s, dir := newStore(t)
	other := open(t, dir, thisBoot)
	for i := range 100 {
		device := fmt.Sprintf("d%d", i%10) // names of one length: the sizes of the records are the same
		claim(t, other, planOf("u1", device))
		for range 2 {
			p, err := s.Get("u1")
			if err != nil || p == nil || p.Devices[0].Device != device {
				t.Fatalf("round %d: the plan is %+v, error %v; want %s", i, p, err, device)
			}
		}
		if i%3 != 0 {
			continue
		}
		if err := other.Remove("u1"); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Get("u1"); p != nil || err != nil {
			t.Fatalf("round %d: the plan is %+v, error %v after its end", i, p, err)
		}
	}
}

// TestSharersCost: the records of claims that share an HCA are decoded once, not by each that
// comes.
func TestSharersCost(t *testing.T) {
	s, _ := newStore(t)
	next := 0
	cost := func() float64 {
		return testing.AllocsPerRun(5, func() {
			p := sharesOf(types.UID(fmt.Sprintf("sharer%d", next)), "shared-d1")
			next++
			claim(t, s, p)
		})
	}
	few := cost()
	for next < 100 {
		claim(t, s, sharesOf(types.UID(fmt.Sprintf("sharer%d", next)), "shared-d1"))
		next++
	}
	if many := cost(); many > few+20*100 {
		t.Errorf("%v allocations for a claim beside 100 that share the HCA, %v beside a few", many, few)
	}
}
