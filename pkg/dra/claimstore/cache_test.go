package claimstore_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
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
			must.True(t, err == nil && p != nil && p.Devices[0].Device == device,
				must.Sprintf("round %d: the plan is %+v, error %v; want %s", i, p, err, device))
		}
		if i%3 != 0 {
			continue
		}
		must.NoError(t, other.Remove("u1"))
		p, err := s.Get("u1")
		must.True(t, p == nil && err == nil,
			must.Sprintf("round %d: the plan is %+v, error %v after its end", i, p, err))
	}
}

// TestListCost: a record is decoded once, not at each look at all of them.
func TestListCost(t *testing.T) {
	const records, each = 100, 10 // what asks for one file, and makes its name
	s, _ := newStore(t)
	for i := range records {
		claim(t, s, planOf(types.UID(fmt.Sprintf("u%d", i)), fmt.Sprintf("d%d", i)))
	}
	wantAll := func() {
		plans, err := s.List()
		must.True(t, err == nil && len(plans) == records,
			must.Sprintf("%d plans, error %v; want %d", len(plans), err, records))
	}
	wantAll()
	if n := testing.AllocsPerRun(5, wantAll); n > records*each {
		t.Errorf("%v allocations for %d records that were read before, want at most %d for each", n, records, each)
	}
}
