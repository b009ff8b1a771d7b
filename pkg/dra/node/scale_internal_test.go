package node

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestEventCost: an event about one HCA reads that HCA, however many there are.
func TestEventCost(t *testing.T) {
	cost := map[int]int{}
	for _, functions := range []int{8, 1016} {
		host := largehost.New(t, functions)
		n := opened(t, Config{Sys: host})
		before := n.Host()
		host.Down.Store(true)
		host.Reset()
		must.NoError(t, n.update(rdma.Changes{IBDevs: rdma.NamesOf(host.Last.IBDev)}))
		cost[functions] = host.Operations()
		t.Logf("%d HCAs: %d operations", functions, cost[functions])
		now := n.Host().Lookup(host.Last.Name)
		test.True(t, now != nil && now.Port1().State != rdma.PortActive,
			test.Sprintf("the failed port was not noticed: %+v", now))
		test.Eq(t, 0, len(n.changed), test.Sprint("a link that fails has the specs of all claims looked"))
		diff := rdma.Compare(before.Snapshot, n.Host().Snapshot)
		test.Len(t, 1, diff.HCAs, test.Sprintf("changed are %v, want one", diff.HCAs))
	}
	test.True(t, cost[1016] <= cost[8] && cost[8] <= 40,
		test.Sprintf("an event costs %v operations, want the same few for any number of HCAs", cost))
}

// TestReadsOfAPoll: a look at states and health of all links reads a few files of each card, and nothing of its VFs.
func TestReadsOfAPoll(t *testing.T) {
	for _, functions := range []int{8, 1016} {
		host := largehost.New(t, functions)
		n := opened(t, Config{Sys: host})
		cards := 0
		for _, h := range n.Host().Usable() {
			if h.Function == rdma.PF {
				cards++
			}
		}
		host.Reset()
		must.NoError(t, n.poll())
		states := host.Operations()
		n.health.read(n.Host(), n.cfg.Health.Thresholds, &n.Moves)
		reads := host.Operations()
		t.Logf("%d functions, %d cards: %d operations, %d of them for states, twice a minute",
			functions, cards, reads, states)
		test.True(t, cards != 0 && states <= cards+2 && reads <= 60*cards,
			test.Sprintf("%d functions with %d cards cost %d operations, %d of them for states, want at most 60 a card",
				functions, cards, reads, states))
	}
}
