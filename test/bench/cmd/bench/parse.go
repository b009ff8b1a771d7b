package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// measured is what benchmarks said, in their order.
type measured struct {
	config map[string]string
	cells  []*cell
}

// cell is one thing that was measured of the driver and of its floor.
type cell struct {
	name        string
	ours, floor map[string][]float64 // the rounds, by unit
}

// oursSide and floorSide are the last part of a benchmark's name. They say which side the benchmark measures.
const oursSide, floorSide = "driver=ours", "driver=empty"

// parse reads the output of benchmarks.
func parse(r io.Reader) (*measured, error) {
	m := &measured{config: map[string]string{}}
	byName := map[string]*cell{}
	for in := benchfmt.NewReader(r, "benchmarks"); ; {
		if !in.Scan() {
			return m, in.Err()
		}
		switch record := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, c := range record.Config {
				m.config[c.Key] = string(c.Value)
			}
			if err := m.add(byName, record); err != nil {
				return nil, err
			}
		}
	}
}

var errSide = errors.New("the name of a benchmark ends with " + oursSide + " or " + floorSide)

func (m *measured) add(byName map[string]*cell, r *benchfmt.Result) error {
	full, _, _ := cutLast(string(r.Name.Full()), "-") // the number of processors
	name, side, _ := cutLast(full, "/")
	c := byName[name]
	if c == nil {
		c = &cell{name, map[string][]float64{}, map[string][]float64{}}
		byName[name] = c
		m.cells = append(m.cells, c)
	}
	into := c.ours
	switch side {
	case oursSide:
	case floorSide:
		into = c.floor
	default:
		return fmt.Errorf("%s: %w", full, errSide)
	}
	for _, v := range r.Values {
		into[v.Unit] = append(into[v.Unit], v.Value)
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// value is what was measured of us: the median of the rounds.
func (c *cell) value(unit string) float64 { return median(c.ours[unit]) }

// ratio is the median of what each round says of us over the floor, and whether there is
// a floor.
func (c *cell) ratio(unit string) (float64, bool) {
	ours, floor := c.ours[unit], c.floor[unit]
	if len(ours) == 0 || len(ours) != len(floor) || median(floor) == 0 {
		return 0, false
	}
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / floor[i]
	}
	return median(ratios), true
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
