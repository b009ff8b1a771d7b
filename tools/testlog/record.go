package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// outcome is what became of a test of a package, with its subtests, as a record tells it. The name is empty for a
// package that failed.
type outcome struct {
	pkg, name string
	// result is pass, fail or skip; empty if the record ends before the test does.
	result string
	took   time.Duration
	// why is what a skipped test says.
	why string
	// spans are when the test ran, and did not wait for parallel ones.
	spans []span
}

type span struct{ from, to time.Time }

func (t *outcome) top() bool { return t.name != "" && !strings.Contains(t.name, "/") }

// event is a line of `go test -json` (cmd/internal/test2json).
type event struct {
	Time          time.Time
	Action        string
	Package, Test string
	Elapsed       float64
	Output        string
}

func readAll(paths []string) ([]*outcome, error) {
	var all []*outcome
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		tests, err := read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read record %s: %w", path, err)
		}
		all = append(all, tests...)
	}
	return all, nil
}

// read returns the tests of a record in the order of their starts. One that ran twice is there twice.
func read(r io.Reader) ([]*outcome, error) {
	var tests []*outcome
	last := map[[2]string]*outcome{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return tests, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil || e.Test == "" && e.Action != "fail" {
			continue // gotestsum keeps lines of programs that a test left running, too
		}
		key := [2]string{e.Package, e.Test}
		t := last[key]
		if t == nil || e.Action == "run" {
			t = &outcome{pkg: e.Package, name: e.Test}
			last[key], tests = t, append(tests, t)
		}
		t.add(e)
	}
}

func (t *outcome) add(e event) {
	switch e.Action {
	case "run", "cont":
		t.spans = append(t.spans, span{from: e.Time})
	case "pause":
		t.end(e.Time)
	case "pass", "fail", "skip":
		t.end(e.Time)
		t.result, t.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
	case "output":
		text := strings.TrimSpace(e.Output)
		if !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") && !strings.Contains(t.why, inProof) {
			t.why = text // the last words of a test that skips are its reason
		}
	}
}

func (t *outcome) end(at time.Time) {
	if n := len(t.spans); n > 0 && t.spans[n-1].to.IsZero() {
		t.spans[n-1].to = at
	}
}
