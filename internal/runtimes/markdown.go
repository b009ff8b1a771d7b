package runtimes

import (
	"fmt"
	"strings"
)

// Markdown is the table for people, as docs/runtimes.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| runtime | from version | highest CDI | CDI library | reads | on by default | remarks |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, name := range names {
		for _, r := range rowsOf(name.target) {
			on := "yes"
			switch {
			case r.max == "":
				on = "-"
			case !r.on:
				on = "**no**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name.prose, r.from, dash(r.max), dash(r.library),
				dash(strings.Join(r.dirs, ", ")), on, r.note)
		}
	}
	return b.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
