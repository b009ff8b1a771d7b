package main

import (
	"fmt"
	"regexp"
)

// goal is what some of the cells shall keep.
type goal struct {
	text  string
	cells *regexp.Regexp
	unit  string
	// ratio compares us over the floor, instead of a value of ours.
	ratio bool
	limit float64
	// least turns it round: at least the limit.
	least bool
}

// goals are those of the project. They are ratios where that is possible: times are those
// of a machine.
var goals = []goal{
	{text: "Prepare, p50 over that of an empty driver", cells: prepareAlone, unit: p50, ratio: true, limit: 1.2},
	{text: "Prepare, p99 over that of an empty driver", cells: prepareAlone, unit: p99, ratio: true, limit: 1.3},
	{text: "the last 32 of 1,016 claims over the first 32", cells: regexp.MustCompile(`^Growth`), unit: "last-over-first", limit: 1.1},
	{text: "claims a second, eight at a time, over those of an empty driver (at least)", cells: regexp.MustCompile(`^(Prepare|APIServer)/.*at-once=8`), unit: "claims/s", ratio: true, limit: 0.9, least: true},
	{text: "claims a second in a storm, over a driver with client-go's default client (at least)", cells: regexp.MustCompile(`^Storm`), unit: "claims/s", ratio: true, limit: 200, least: true},
	{text: "GETs of the API server for a claim", cells: prepareAlone, unit: "GETs/op", limit: 1.2},
	{
		text:  "system calls of a full scan, per device",
		cells: regexp.MustCompile(`^Discovery/.*/cold`), unit: "calls/device", limit: 25,
	},
	{
		text:  "scan of a host with 1,016 functions, in seconds",
		cells: regexp.MustCompile(`^Discovery/devices=1016/.*/cold`), unit: p50, limit: 0.1,
	},
	{text: "system calls after an event, on any host", cells: regexp.MustCompile(`^Discovery/.*/event`), unit: "calls/op", limit: 75},
	{text: "start to slices stored, over an empty driver", cells: regexp.MustCompile(`^Start/.*/stored`), unit: p50, ratio: true, limit: 1.1},
	{
		text:  "link event to taint at the API server, over a request that changes nothing",
		cells: regexp.MustCompile(`^Latency`), unit: p50, ratio: true, limit: 3,
	},
	{text: "resident memory with 1,016 functions, over an empty driver", cells: regexp.MustCompile(`^Footprint/devices=1016`), unit: "RSS-MiB", ratio: true, limit: 1.2},
	{text: "size of the driver's program, over an empty one", cells: regexp.MustCompile(`^Size/program=dra-driver$`), unit: "B", ratio: true, limit: 1.2},
	{text: "bytes of cdi-gen", cells: regexp.MustCompile(`^Size/program=cdi-gen`), unit: "B", limit: 8e6},
	{text: "bytes of the hook", cells: regexp.MustCompile(`^Size/program=rdma-hook`), unit: "B", limit: 2e6},
	{text: "the hook over an empty program, in seconds", cells: regexp.MustCompile(`^Hook`), unit: "added-sec", limit: 0.0015},
}

var prepareAlone = regexp.MustCompile(`^(Prepare|APIServer)/.*at-once=1$`)

// row is the goal as a line of a table, with the median of the cells and the one that is farthest from it.
func (g goal) row(m *measured) string {
	worst, at := 0.0, ""
	var all []float64
	for _, c := range m.cells {
		if !g.cells.MatchString(c.name) || len(c.ours[g.unit]) == 0 {
			continue
		}
		v := c.value(g.unit)
		if g.ratio {
			v, _ = c.ratio(g.unit)
		}
		all = append(all, v)
		if at == "" || g.exceeds(v, worst) {
			worst, at = v, c.name
		}
	}
	if at == "" {
		return ""
	}
	verdict := "met"
	if g.exceeds(worst, g.limit) {
		verdict = "**not met**"
	}
	return fmt.Sprintf("| %s | %.3g | %.3g | %.3g | %s | %s |\n", g.text, g.limit, median(all), worst, at, verdict)
}

func (g goal) exceeds(v, limit float64) bool {
	if g.least {
		return v < limit
	}
	return v > limit
}
