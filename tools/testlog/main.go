// Command testlog reads the records of `go test -json` that hack/stages.sh keeps.
//
//	testlog summary COMMAND RECORD...  what make COMMAND (test or proof) ran: the slowest tests, the skipped ones
//	                                   and why, and the counts
//	testlog rest RECORD                what hack/test.sh left to hack/proof.sh: lines of a package and a pattern for -run
//	testlog sample FILE                writes what the processors have worked, twice a second, until it is ended
//	testlog figures DIR                times of stages and processor time by test of the records in a directory, as a page
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("want a command and its files: summary, rest, sample or figures")
	}
	switch command, files := args[0], args[1:]; command {
	case "summary":
		tests, err := readAll(files[1:])
		if err != nil {
			return err
		}
		return writeSummary(out, files[0], tests)
	case "rest":
		tests, err := readAll(files)
		if err != nil {
			return err
		}
		return writeRest(out, tests)
	case "sample":
		return sampleUntilEnd(files[0])
	case "figures":
		return writeFigures(out, files[0])
	default:
		return fmt.Errorf("unknown command %q: want summary, rest, sample or figures", command)
	}
}

func sampleUntilEnd(path string) error {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := writeSample(f, time.Now()); err != nil {
			return fmt.Errorf("write sample to %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ends:
			return nil
		}
	}
}
