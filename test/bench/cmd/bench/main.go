// Command bench runs the benchmarks of this module, one round after the other, and says
// what they mean: the output is the text that benchstat reads, and the report a
// Markdown table of what the driver costs over its floor, with the goals. Run it as root, on a
// machine that does nothing else:
//
//	go -C test/bench run ./cmd/bench -report results.md
//
// The report replaces what stands between two comments in that file. Containers are
// started by the runc that test/cluster builds, if PATH has none.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	pattern := flag.String("bench", ".", "benchmarks to run, as go test -bench has it")
	count := flag.Int("count", 3, "rounds")
	output := flag.String("output", "", "file for what the benchmarks print, for benchstat")
	input := flag.String("input", "", "file of an earlier run to report, instead of a run")
	report := flag.String("report", "", "Markdown file whose table to replace")
	flag.Parse()
	text, err := results(*input, *output, *pattern, *count)
	if err != nil {
		return err
	}
	measured, err := parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	table := render(measured)
	if *report == "" {
		_, err = io.WriteString(os.Stdout, "\n"+table)
		return err
	}
	return replaceTable(*report, table)
}

// modules are where benchmarks are, and which patterns may mean one there: how soon an API server knows is
// measured where it is tested.
var modules = []struct {
	dir, tests string
	has        *regexp.Regexp
}{
	{".", ".", regexp.MustCompile(``)},
	{"../cluster", "./latency", regexp.MustCompile(`Latency|^\.$`)},
}

// results are what benchmarks print, in an earlier run or in one of now.
func results(input, output, pattern string, count int) ([]byte, error) {
	if input != "" {
		return os.ReadFile(input)
	}
	var text bytes.Buffer
	writers := []io.Writer{&text, os.Stdout}
	if output != "" {
		file, err := os.Create(output)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		writers = append(writers, file)
	}
	w := io.MultiWriter(writers...)
	fmt.Fprintf(w, "date: %s\nkernel: %s\n", time.Now().UTC().Format(time.DateOnly), kernel())
	path, err := runtimePath()
	if err != nil {
		return nil, err
	}
	// Each round is a process of its own: nothing of one is left to the next.
	for range count {
		for _, module := range modules {
			if !module.has.MatchString(pattern) {
				continue
			}
			cmd := exec.Command("go", "-C", module.dir, "test", "-run", "^$", "-bench", pattern, "-benchtime", "1x", "-timeout", "2h", module.tests)
			cmd.Stdout, cmd.Stderr = w, os.Stderr
			cmd.Env = append(os.Environ(), "PATH="+path)
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("run the benchmarks: %w", err)
			}
		}
	}
	return text.Bytes(), nil
}

// runtimePath is a PATH with runc.
func runtimePath() (string, error) {
	path := os.Getenv("PATH")
	if _, err := exec.LookPath("runc"); err == nil {
		return path, nil
	}
	built, err := exec.Command("go", "-C", "../cluster", "run", "./cmd/cluster", "build").Output()
	if err != nil {
		return "", fmt.Errorf("build runc: %w", err)
	}
	return strings.TrimSpace(string(built)) + string(os.PathListSeparator) + path, nil
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(release))
}

// The comments around the table.
const begin, end = "<!-- begin of what go -C test/bench run ./cmd/bench writes -->\n", "<!-- end -->\n"

func replaceTable(file, table string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("replace the table in %q: it has no lines %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+table+"\n"+end+after), 0o644)
}
