package scale

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// job wants whole nodes.
type job struct {
	number, nodes int
}

// step of a plan: a job starts or ends.
type step struct {
	job  job
	ends bool
	// steady is true for the start of a job on a cluster that has been full: a job has ended before.
	steady bool
}

// jobSizes are the sizes of jobs, in nodes. A smaller one is more frequent.
var jobSizes = []struct{ nodes, weight int }{{4, 30}, {8, 25}, {16, 20}, {32, 15}, {64, 10}}

// planOf is a sequence of starts and ends of jobs, from a seed. It keeps a load: the next job starts when its nodes fit
// below that, and until then running jobs end, each with the same probability. It knows nothing of where jobs are, so
// it is the same for all ways to place them.
func planOf(seed uint64, nodes, jobs int, load float64) (plan []step) {
	random := rand.New(rand.NewPCG(seed, 0))
	most, busy, ended := int(load*float64(nodes)), 0, false
	var running []job
	for n := range jobs {
		next := job{n, sizeOf(random)}
		if next.nodes > most {
			next.nodes = jobSizes[0].nodes
		}
		for busy+next.nodes > most {
			i := random.IntN(len(running))
			plan = append(plan, step{job: running[i], ends: true})
			busy, ended = busy-running[i].nodes, true
			running = slices.Delete(running, i, i+1)
		}
		plan = append(plan, step{job: next, steady: ended})
		running, busy = append(running, next), busy+next.nodes
	}
	return plan
}

func sizeOf(random *rand.Rand) int {
	sum := 0
	for _, s := range jobSizes {
		sum += s.weight
	}
	at := random.IntN(sum)
	for _, s := range jobSizes {
		if at -= s.weight; at < 0 {
			return s.nodes
		}
	}
	panic("the weights have another sum")
}

// leavesAtLeast is how many leaves a job needs on an empty cluster.
func leavesAtLeast(nodes, leaf int) int { return (nodes + leaf - 1) / leaf }

// leavesNow is how many leaves a job needs if each leaf has so many free nodes.
func leavesNow(nodes int, free []int) (leaves int) {
	free = slices.Clone(free)
	slices.Sort(free)
	for _, n := range slices.Backward(free) {
		if nodes <= 0 {
			break
		}
		nodes -= n
		leaves++
	}
	return leaves
}

// TestPlan: a plan of a seed is always the same, never exceeds its load, and ends only running jobs.
func TestPlan(t *testing.T) {
	const nodes, jobs = 1024, 200
	plan := planOf(1, nodes, jobs, 0.85)
	test.SliceEqOp(t, planOf(1, nodes, jobs, 0.85), plan, test.Sprint("two plans of a seed differ"))
	running, busy, started, low := map[int]bool{}, 0, 0, nodes
	for _, s := range plan {
		must.Eq(t, running[s.job.number], s.ends, must.Sprintf("job %d starts or ends twice", s.job.number))
		if s.ends {
			busy -= s.job.nodes
		} else {
			busy += s.job.nodes
			started++
		}
		running[s.job.number] = !s.ends
		test.LessEq(t, nodes*85/100, busy, test.Sprintf("%d nodes are busy", busy))
		if s.steady {
			low = min(low, busy)
		}
	}
	if started != jobs || low < nodes*70/100 {
		t.Errorf("%d jobs start, and the least load after a start is %d nodes", started, low)
	}
}

// TestLeaves: a job needs the leaves with the most free nodes.
func TestLeaves(t *testing.T) {
	for _, c := range []struct {
		nodes       int
		free        []int
		empty, want int
	}{
		{4, []int{16, 16}, 1, 1},
		{17, []int{16, 16}, 2, 2},
		{16, []int{3, 15, 2}, 1, 2},
		{20, []int{3, 15, 2}, 2, 3},
	} {
		test.Eq(t, c.empty, leavesAtLeast(c.nodes, 16), test.Sprintf("%d nodes need", c.nodes))
		if got := leavesNow(c.nodes, c.free); got != c.want {
			t.Errorf("%d nodes need %d of leaves with %v free nodes, want %d", c.nodes, got, c.free, c.want)
		}
	}
}
