package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// inProof is how needs.Proof begins its reason.
const inProof = "in make proof: "

// writeSummary writes what became of the tests of make test or make proof. It returns an error for what a stage passes
// over: a test or a package that failed, and passed when gotestsum ran it again, and a test that make test left to make
// proof, and that this has not run.
func writeSummary(w io.Writer, command string, tests []*outcome) error {
	byTime := slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(tests), func(t *outcome) bool { return !t.top() })),
		func(a, b *outcome) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintln(w, "\n=== the ten slowest tests")
	for _, t := range byTime[:min(10, len(byTime))] {
		fmt.Fprintf(w, "%8.1f s  %s %s\n", t.took.Seconds(), path.Base(t.pkg), t.name)
	}
	counts := map[string]int{}
	var skipped, again []string
	left, ran, failed := map[[2]string]bool{}, map[[2]string]bool{}, map[[2]string]bool{}
	for _, t := range tests {
		key, pkg := [2]string{t.pkg, t.name}, [2]string{t.pkg}
		if t.name == "" {
			if !failed[pkg] { // its TestMain did, which starts and ends a cluster
				again = append(again, path.Base(t.pkg)+" outside of its tests")
			}
			continue
		}
		counts[t.result]++
		why, later := reason(t)
		ran[key] = ran[key] || !later
		switch {
		case later:
			left[key] = true
			counts["skip"]--
		case t.result == "skip":
			skipped = append(skipped, fmt.Sprintf("%s %s: %s", path.Base(t.pkg), t.name, why))
		case t.result == "fail":
			failed[key], failed[pkg] = true, true
		case t.result == "pass" && failed[key] && t.top():
			again = append(again, path.Base(t.pkg)+" "+t.name)
			counts["fail"]--
		}
	}
	fmt.Fprintln(w, "\n=== the skipped tests, and why")
	for _, s := range slices.Sorted(slices.Values(skipped)) {
		fmt.Fprintln(w, s)
	}
	maps.DeleteFunc(left, func(key [2]string, _ bool) bool { return ran[key] })
	if command == "test" {
		fmt.Fprintf(w, "\n%d more tests are in make proof. It also has lint, the race detector, packages, all clusters, the "+
			"virtual machine and its nodes.\n", len(left))
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"], counts["skip"])
	switch {
	case len(again) > 0:
		return fmt.Errorf("failed once, and passed when run again, a fault to mend: %s", strings.Join(again, ", "))
	case command == "proof" && len(left) > 0:
		return fmt.Errorf("left to make proof, and not run there: %v", slices.Collect(maps.Keys(left)))
	}
	return nil
}

// reason is why a test was skipped, without the place in the source, and whether it is because make proof has it.
func reason(t *outcome) (why string, later bool) {
	if t.result != "skip" {
		return "", false
	}
	why = t.why
	if file, text, ok := strings.Cut(why, ": "); ok && strings.Contains(file, ".go:") {
		why = text
	}
	return why, strings.HasPrefix(why, inProof)
}

// writeRest names what was left to make proof: a package in each line, and its tests as a pattern for -run.
func writeRest(w io.Writer, tests []*outcome) error {
	rest := map[string][]string{}
	for _, t := range tests {
		name, _, _ := strings.Cut(t.name, "/")
		if _, later := reason(t); later && !slices.Contains(rest[t.pkg], name) {
			rest[t.pkg] = append(rest[t.pkg], name)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(rest)) {
		if _, err := fmt.Fprintf(w, "%s ^(%s)$\n", pkg, strings.Join(rest[pkg], "|")); err != nil {
			return err
		}
	}
	return nil
}
