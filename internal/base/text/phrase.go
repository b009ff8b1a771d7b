package text

import (
	"fmt"
	"strings"
	"time"
)

// Time formats a time to the minute for people, without the year: Nov 21 02:13 UTC.
func Time(at time.Time) string { return at.UTC().Format("Jan 2 15:04 UTC") }

// Count writes a number with its noun: "1 port", "2 ports".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// most is the number of elements that Some writes.
const most = 6

// Some joins the first few elements of a list, and counts the others: "a, b, c, d, e, f and 2 more".
func Some(list []string, separator string) string {
	return First(list, most, separator)
}

// First is Some with another number of elements.
func First(list []string, n int, separator string) string {
	if more := len(list) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:n], separator), more)
	}
	return strings.Join(list, separator)
}
