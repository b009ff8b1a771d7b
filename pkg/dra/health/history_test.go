package health_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// lines returns the history of an HCA as people read it.
func (w *watched) lines(h rdma.HCA) (out []string) {
	for _, c := range w.View().History(h.Name).Recent {
		out = append(out, c.Line())
	}
	return out
}

// TestRecent: what happened to an HCA is known in the order in which it happened, with the cause beside the effect, and
// the next driver of the boot knows it too.
func TestRecent(t *testing.T) {
	w, h := watch(t), rated(1, 400)
	narrow := func(lanes int) {
		w.obs.PCIe = map[string]health.PCIe{h.Name: {PCIeLink: health.PCIeLink{
			Link: rdma.PCIeLink{MTs: 32000, Lanes: lanes}, At: "0000:3a:00.0"}, Errors: map[string]uint64{"aer_fatal": 0}}}
	}
	w.obs.Expected = map[string]health.Expected{h.Name: {MinRateMbps: 400_000, MinPCIe: rdma.PCIeLink{MTs: 32000, Lanes: 8}}}
	narrow(16)
	w.see(h)
	w.poll(time.Hour)
	got := w.View().History(h.Name)
	test.True(t, got.Summary() == "" && len(got.Recent) == 0,
		test.Sprintf("the history of an HCA to which nothing happened is %+v", got))
	w.see(withRate(h, 200))
	w.poll(time.Hour)
	want := []string{
		"Nov 21 13:00 UTC: rate of port 1 fell from 400 to 200 Gb/s",
		"Nov 21 13:02 UTC: port-slow began",
	}
	test.Eq(t, want, w.lines(h), test.Sprint("after the rate fell"))
	test.Eq(t, "rate of port 1 fell from 400 to 200 Gb/s at Nov 21 13:00 UTC, PCIe fine", w.View().History(h.Name).Summary(),
		test.Sprint("in one line it"))
	past, changed := w.Past()
	test.True(t, changed, test.Sprint("the next driver would not know"))
	kept, err := json.Marshal(past)
	must.NoError(t, err)
	var read map[string]health.Past
	must.NoError(t, json.Unmarshal(kept, &read))
	next := watch(t)
	next.now, next.obs = w.now, w.obs
	next.Recall(read, next.now)
	next.see(withRate(h, 200))
	diff := cmp.Diff(want, next.lines(h))
	test.True(t, diff == "" && len(next.all) == 0,
		test.Sprintf("the next driver has the transitions %v, and (-want +got):\n%s", next.transitions(), diff))
	next.see(down(withRate(h, 200), 1))
	next.wait(7 * time.Second)
	next.see(withRate(h, 400))
	next.wait(time.Hour)
	narrow(8)
	next.obs.PCIe = w.obs.PCIe
	next.look()
	want = append(want,
		"Nov 21 14:00 UTC: link of port 1 changed 2 times, and is ACTIVE again",
		"Nov 21 14:00 UTC: port-down changed 2 times, and ended last",
		"Nov 21 14:00 UTC: rate of port 1 rose from 200 to 400 Gb/s",
		"Nov 21 14:00 UTC: port-slow ended",
		"Nov 21 15:00 UTC: PCIe link went from 32x16 to 32x8 GT/s",
	)
	test.Eq(t, want, next.lines(h), test.Sprint("a day"))
	if got := next.View().History(h.Name).Summary(); got != "PCIe link went from 32x16 to 32x8 GT/s at Nov 21 15:00 UTC, "+
		"PCIe fine, 1 fall in 24 h" {
		t.Errorf("in one line it is %q", got)
	}
	next.obs.Expected = map[string]health.Expected{h.Name: {MinRateMbps: 400_000}} // nobody says how wide the link should be
	next.look()
	test.Nil(t, next.View().History(h.Name).PCIe, test.Sprint("PCIe is fine"))
}

// TestRecentIsBounded: a link that falls each second for a week, a rate that changes all day and a file that somebody
// wrote take 16 changes of an HCA, and do not displace the one of another kind. A repetition costs a file at most once
// a minute.
func TestRecentIsBounded(t *testing.T) {
	w, h := watch(t), rated(1, 400)
	w.see(h)
	w.see(withRate(h, 200)) // once
	writes, repeated := 0, 0
	for i := range 4000 {
		w.now = w.now.Add(time.Second)
		if i%2 == 0 {
			w.see(down(withRate(h, 200), 1))
		} else {
			w.see(withRate(h, 200))
		}
		if _, changed := w.Past(); changed {
			writes++
		}
		repeated++
	}
	test.LessEq(t, repeated/60+20, writes, test.Sprintf("%d changes of a link cost %d files", repeated, writes))
	for range 30 {
		w.poll(time.Hour)
		w.see(down(withRate(h, 200), 1))
		w.poll(time.Hour)
		w.see(withRate(h, 200))
	}
	recent := w.View().History(h.Name).Recent
	test.True(t, len(recent) == 16 && recent[0].What == "rate",
		test.Sprintf("%d changes are kept: %v; want 16, and the only one of the rate", len(recent), w.lines(h)))
	past := map[string]health.Past{h.Name: {}}
	one := past[h.Name]
	for range 1000 {
		one.Recent = append(one.Recent, health.Change{
			At: w.now.Add(time.Hour), What: strings.Repeat("x", 1<<16), To: "\x1b[31m", Times: 1})
	}
	past[h.Name] = one
	next := watch(t)
	next.now = w.now
	next.Recall(past, next.now)
	next.see(h)
	recent = next.View().History(h.Name).Recent
	if len(recent) != 16 || len(recent[0].What) > 64 || recent[0].At.After(next.now) || strings.Contains(recent[0].Line(), "\x1b") {
		t.Errorf("of a file that somebody wrote there are %d changes, the first is %q", len(recent), fmt.Sprint(recent[:1]))
	}
}
