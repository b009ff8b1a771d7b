package main

import (
	_ "embed"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

// goal is what some of the cells shall keep.
type goal struct {
	Text  string
	Cells string // a regular expression
	Unit  string
	// Ratio compares us over the floor, instead of a value of ours.
	Ratio bool
	Limit float64
	// Least turns it round: at least the limit.
	Least bool
}

//go:embed goals.yaml
var goalsFile []byte

// goals are those of the project.
var goals = func() (all []goal) {
	if err := yaml.UnmarshalStrict(goalsFile, &all); err != nil {
		panic(err)
	}
	return all
}()

// row is the goal as a line of a table, with the median of the cells and the one that is farthest from it.
func (g goal) row(m *measured) string {
	worst, at, cells := 0.0, "", regexp.MustCompile(g.Cells)
	var all []float64
	for _, c := range m.cells {
		if !cells.MatchString(c.name) || len(c.ours[g.Unit]) == 0 {
			continue
		}
		v := c.value(g.Unit)
		if g.Ratio {
			v, _ = c.ratio(g.Unit)
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
	if g.exceeds(worst, g.Limit) {
		verdict = "**not met**"
	}
	return fmt.Sprintf("| %s | %.3g | %.3g | %.3g | %s | %s |\n", g.Text, g.Limit, median(all), worst, at, verdict)
}

func (g goal) exceeds(v, limit float64) bool {
	if g.Least {
		return v < limit
	}
	return v > limit
}
