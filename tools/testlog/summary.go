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

// writeSummary writes what became of the tests of make test or make proof. It returns an error for what the stages pass
// over. gotestsum runs a test that failed again, and passes if that does not fail. A test that make test left to make
// proof may have run nowhere.
func writeSummary(w io.Writer, command string, tests []*outcome) error {
	byTime := slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(tests), func(t *outcome) bool { return !t.top() })),
		func(a, b *outcome) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintln(w, "\n=== the ten slowest tests")
	for _, t := range byTime[:min(10, len(byTime))] {
		fmt.Fprintf(w, "%8.1f s  %s %s\n", t.took.Seconds(), path.Base(t.pkg), t.name)
	}
	counts := map[string]int{}
	var skipped, faults []string
	left := map[string]string{} // their names
	ran, failed := map[string]bool{}, map[string]bool{}
	for _, t := range tests {
		key, name := t.pkg+" "+t.name, path.Base(t.pkg)+" "+t.name
		if t.name == "" {
			if !failed[t.pkg] { // its TestMain did, which starts and ends a cluster
				faults = append(faults, path.Base(t.pkg)+" outside of its tests")
			}
			continue
		}
		counts[t.result]++
		why, later := reason(t)
		ran[key] = ran[key] || !later
		switch {
		case later:
			left[key] = name
			counts["skip"]--
		case t.result == "skip":
			skipped = append(skipped, name+": "+why)
		case t.result == "fail":
			failed[key], failed[t.pkg] = true, true
			if t.top() {
				faults = append(faults, name)
			}
		case t.result == "pass" && failed[key] && t.top():
			counts["fail"]--
		}
	}
	fmt.Fprintln(w, "\n=== the skipped tests, and why")
	for _, s := range slices.Sorted(slices.Values(skipped)) {
		fmt.Fprintln(w, s)
	}
	maps.DeleteFunc(left, func(key, _ string) bool { return ran[key] })
	if command == "test" {
		fmt.Fprintf(w, "\n%d more tests are in make proof. It also has lint, the race detector, packages, "+
			"all clusters, the virtual machine and its nodes.\n", len(left))
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"], counts["skip"])
	switch {
	case len(faults) > 0:
		return fmt.Errorf("failed, and not when run again, a fault to mend: %s", strings.Join(faults, ", "))
	case command == "proof" && len(left) > 0:
		names := slices.Sorted(maps.Values(left))
		return fmt.Errorf("left to make proof, and not run there: %s", strings.Join(names, ", "))
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
