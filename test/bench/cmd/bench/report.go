package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Units of benchfmt, which has seconds where testing has nanoseconds.
const p50, p99 = "sec/op", "p99-sec"

// render writes the report: goals, then all that was measured.
func render(m *measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, Linux %s, %s, %s/%s; medians of the rounds.\n\n",
		m.config["date"], m.config["kernel"], m.config["cpu"], m.config["goos"], m.config["goarch"])
	b.WriteString("| goal | at most | median | worst | where | |\n|---|---|---|---|---|---|\n")
	for _, g := range goals {
		b.WriteString(g.row(m))
	}
	b.WriteString("\n| | ours | floor | ratio | ours p99 | ratio | and |\n|---|---|---|---|---|---|---|\n")
	for _, c := range m.cells {
		b.WriteString(c.row())
	}
	return b.String()
}

// row is one cell as a line of a table.
func (c *cell) row() string {
	benchmark, name, _ := strings.Cut(c.name, "/")
	columns := []string{strings.TrimSpace("**" + benchmark + "** " + strings.ReplaceAll(name, "/", " "))}
	for _, unit := range []string{p50, p99} {
		columns = append(columns, show(unit, c.ours[unit]))
		if unit == p50 {
			columns = append(columns, show(unit, c.floor[unit]))
		}
		columns = append(columns, c.showRatio(unit))
	}
	return "| " + strings.Join(append(columns, c.others()), " | ") + " |\n"
}

// others are the units that have no column.
func (c *cell) others() string {
	var out []string
	for _, unit := range slices.Sorted(maps.Keys(c.ours)) {
		if unit == p50 || unit == p99 {
			continue
		}
		text := show(unit, c.ours[unit])
		if len(c.floor[unit]) > 0 && c.value(unit) != median(c.floor[unit]) {
			text += " (" + show(unit, c.floor[unit]) + ")"
		}
		out = append(out, strings.TrimSuffix(strings.TrimSuffix(unit, "-sec"), "/op")+" "+text)
	}
	return strings.Join(out, ", ")
}

func (c *cell) showRatio(unit string) string {
	if r, ok := c.ratio(unit); ok {
		return fmt.Sprintf("%.2f", r)
	}
	return ""
}

// show prints a value with three digits.
func show(unit string, values []float64) string {
	if len(values) == 0 {
		return ""
	}
	v := median(values)
	if unit == p50 || strings.HasSuffix(unit, "-sec") {
		d := time.Duration(v * float64(time.Second))
		for _, digits := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
			if d >= digits {
				return strings.Replace(d.Round(digits/100).String(), "µ", "µ", 1)
			}
		}
		return d.String()
	}
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
