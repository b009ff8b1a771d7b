package follow

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestCost measures what it costs the start of a pod that an HCA follows it: the time until
// it is ready with and without a claim, by turns, and of that what the driver took from the
// move to the new spec.
func TestCost(t *testing.T) {
	needs.Long(t, "it measures, and proves nothing")
	before := counted(t)
	var with, without []time.Duration
	for i := range 10 {
		name := "cost-" + strconv.Itoa(i)
		without = append(without, runs(t, name, "", one))
		ends(t, name)
		with = append(with, runs(t, name+"-claim", "rxm0", one))
		ends(t, name+"-claim")
		home(t, before)
	}
	log, err := node.Output(t.Context(), "kubectl", "--namespace", "dra-driver-rdma", "logs", "--tail=-1",
		"--selector", "app.kubernetes.io/name=dra-driver-rdma")
	must.NoError(t, err)
	var moves []time.Duration
	moved := regexp.MustCompile(`"Moved RDMA devices into a pod".* took="([^"]+)"`)
	for _, line := range moved.FindAllStringSubmatch(log, -1) {
		took, err := time.ParseDuration(line[1])
		must.NoError(t, err)
		moves = append(moves, took)
	}
	must.GreaterEq(t, len(with), len(moves),
		must.Sprintf("the driver's log tells of %d moves, want %d:\n%s", len(moves), len(with), log))
	t.Logf("%d pods of each kind, medians: ready after %v without a claim, and %v with an HCA that follows; the driver "+
		"moved and wrote for %v",
		len(with), median(without), median(with), median(moves))
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2].Round(time.Millisecond)
}
