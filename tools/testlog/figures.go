package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is what all processors of the machine had worked at a moment, for whomever.
type sample struct {
	at     time.Time
	worked time.Duration
}

// tick is USER_HZ, which is 100 on all of Linux's architectures that Go has (proc_stat(5)).
const tick = 10 * time.Millisecond

func writeSample(w io.Writer, now time.Time) error {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return err
	}
	worked, err := parseWorked(string(stat))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, now.UnixMilli(), worked.Milliseconds())
	return err
}

// parseWorked adds user, nice, system, irq and softirq of the first line of /proc/stat (proc_stat(5)).
func parseWorked(stat string) (time.Duration, error) {
	fields := strings.Fields(stat)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %.40q, want a line of cpu with seven numbers", stat)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

func readSamples(path string) ([]sample, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var samples []sample
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var at, worked int64
		if n, _ := fmt.Sscan(lines.Text(), &at, &worked); n == 2 {
			samples = append(samples, sample{time.UnixMilli(at), time.Duration(worked) * time.Millisecond})
		}
	}
	return samples, lines.Err()
}

// share divides what the processors worked between two samples among the tests that ran then. What was worked while no
// test ran (compilation, links, starts of clusters) is the second value.
func share(tests []*outcome, samples []sample) (of map[*outcome]time.Duration, none time.Duration) {
	of = map[*outcome]time.Duration{}
	for i := 1; i < len(samples); i++ {
		middle := samples[i-1].at.Add(samples[i].at.Sub(samples[i-1].at) / 2)
		var running []*outcome
		for _, t := range tests {
			if t.top() && t.runs(middle) {
				running = append(running, t)
			}
		}
		worked := samples[i].worked - samples[i-1].worked
		if len(running) == 0 {
			none += worked
		}
		for _, t := range running {
			of[t] += worked / time.Duration(len(running))
		}
	}
	return of, none
}

func (t *outcome) runs(at time.Time) bool {
	return slices.ContainsFunc(t.spans, func(s span) bool { return !at.Before(s.from) && at.Before(s.to) })
}

const preface = `# Figures

You get from here what the tests cost, by stage and by test. ` + "`make figures`" + ` writes this page from the records of the last run of
` + "`make test` and `make proof`" + ` on the machine.

`

// writeFigures writes the stages and the dearest tests of a run whose records are in a directory.
func writeFigures(w io.Writer, dir string) error {
	samples, err := readSamples(filepath.Join(dir, "samples"))
	if err != nil {
		return err
	}
	records, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	tests, err := readAll(records)
	if err != nil {
		return err
	}
	fmt.Fprint(w, preface)
	for _, command := range []string{"test", "proof"} {
		stages, err := os.ReadFile(filepath.Join(dir, command+".stages"))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "## make %s\n\n    %s\n\n", command, strings.ReplaceAll(strings.TrimRight(string(stages), "\n"), "\n", "\n    "))
	}
	of, none := share(tests, samples)
	dearest := slices.SortedFunc(slices.Values(tests), func(a, b *outcome) int { return cmp.Compare(of[b], of[a]) })
	total := none
	for _, t := range tests {
		total += of[t]
	}
	fmt.Fprintf(w, "## By test\n\nThe processors worked %.0f s while `make proof` ran, %.0f s of them while no test did: compilation, links, images. Tests\n"+
		"that ran at the same moment share what was worked then.\n\n", total.Seconds(), none.Seconds())
	fmt.Fprintln(w, "| package | test | seconds | of processor time |\n|---|---|---|---|")
	for _, t := range dearest[:min(40, len(dearest))] {
		place := strings.TrimPrefix(t.pkg, "github.com/rdma-dev/dra-driver-rdma/")
		if _, err := fmt.Fprintf(w, "| `%s` | `%s` | %.0f | %.0f |\n", place, t.name, t.took.Seconds(), of[t].Seconds()); err != nil {
			return err
		}
	}
	return nil
}
