package scale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// group are the jobs of one size that were placed in one way.
type group []placed

func (p *placement) of(nodes int) (out group) {
	for _, j := range p.jobs {
		if j.nodes == nodes {
			out = append(out, j)
		}
	}
	return out
}

// mean is the mean of a figure, 0 for no job.
func (g group) mean(of func(placed) float64) float64 {
	sum := 0.0
	for _, j := range g {
		sum += of(j)
	}
	return sum / float64(max(1, len(g)))
}

func (g group) leaves() float64 { return g.mean(func(j placed) float64 { return float64(j.leaves) }) }

// whole are the jobs that got all their nodes.
func (g group) whole() (out group) {
	for _, j := range g {
		if j.took > 0 {
			out = append(out, j)
		}
	}
	return out
}

// waits are the median and the longest time until a job was whole, in seconds.
func (g group) waits() string {
	var took []time.Duration
	for _, j := range g.whole() {
		took = append(took, j.took)
	}
	if len(took) == 0 {
		return "-"
	}
	slices.Sort(took)
	return fmt.Sprintf("%.1f, %.1f", took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
}

// publishPlacement writes the tables.
func publishPlacement(t testing.TB, version string, results []placement) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %s, %s.\n%d nodes in leaves of %d, %d jobs, load %.0f %%, seed %d.\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(t), version, *nodeCount, nodesOfLeaf, *jobCount, 100*load, *seed)
	head, line := "| nodes | jobs | least |", "|---|---|---|"
	for _, r := range results {
		head, line = head+" "+r.way+" |", line+"---|"
	}
	out.WriteString("Leaves of a job, mean; in parentheses the fewest that the free nodes allowed at its start:\n\n" +
		head + "\n" + line + "\n")
	for _, size := range jobSizes {
		first := results[0].of(size.nodes)
		if len(first) == 0 {
			continue
		}
		fmt.Fprintf(&out, "| %d | %d | %d |", size.nodes, len(first), first[0].least)
		for _, r := range results {
			g := r.of(size.nodes).whole()
			fmt.Fprintf(&out, " %s (%s) |", number(g.leaves()),
				number(g.mean(func(j placed) float64 { return float64(j.possible) })))
		}
		out.WriteString("\n")
	}
	out.WriteString("\n| | " + strings.Join(waysOf(results), " | ") + " |\n|---" +
		strings.Repeat("|---", len(results)) + "|\n")
	for _, row := range []struct {
		name string
		of   func(group) string
	}{
		{"leaves over the least, all jobs", func(g group) string {
			return fmt.Sprintf("%.2f", g.leaves()/max(1, g.mean(func(j placed) float64 { return float64(j.least) })))
		}},
		{"leaves over the possible, all jobs", func(g group) string {
			return fmt.Sprintf("%.2f", g.leaves()/max(1, g.mean(func(j placed) float64 { return float64(j.possible) })))
		}},
		{"jobs of up to 16 nodes on one leaf", func(g group) string {
			small, one := 0, 0
			for _, j := range g {
				if j.nodes <= nodesOfLeaf {
					small++
					if j.leaves == 1 && j.took > 0 {
						one++
					}
				}
			}
			return fmt.Sprintf("%d of %d", one, small)
		}},
		{"jobs that waited for others to end", func(g group) string {
			n := 0
			for _, j := range g {
				n += min(1, j.late)
			}
			return fmt.Sprint(n)
		}},
		{"jobs that never had all nodes", func(g group) string { return fmt.Sprint(len(g) - len(g.whole())) }},
		{"seconds until all pods have a node: median, most", group.waits},
		{"milliseconds a pod, jobs that did not wait", func(g group) string {
			took, pods := time.Duration(0), 0
			for _, j := range g {
				if j.took > 0 && j.late == 0 {
					took, pods = took+j.took, pods+j.nodes
				}
			}
			return fmt.Sprint((took / time.Duration(max(1, pods))).Milliseconds())
		}},
	} {
		out.WriteString("| " + row.name + " |")
		for _, r := range results {
			out.WriteString(" " + row.of(r.jobs) + " |")
		}
		out.WriteString("\n")
	}
	publish(t, "placement.md", out.String())
}

func waysOf(results []placement) (names []string) {
	for _, r := range results {
		names = append(names, r.way)
	}
	return names
}
