// Manpages writes the manual pages of programs and of all their commands, from what they print for --help:
//
//	manpages --out man --package "cdi-gen 1.2.3" 'bin/cdi-gen:1:write CDI specs' 'bin/rdma-hook:8:raise a limit'
//
// The first page names all others, and they name it. SOURCE_DATE_EPOCH is the date of the pages.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/packaging/manpage"
)

func main() {
	out := flag.String("out", "", "directory of the pages: they go to man1 and man8 below it")
	footer := flag.String("package", "", "name and version of the package, for the footer")
	see := flag.String("see", "", "a page of others that each page names")
	flag.Parse()
	if err := run(*out, *footer, *see, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(out, footer, see string, programs []string) error {
	date, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH: %w; want seconds since 1970", err)
	}
	var pages []manpage.Page
	for _, program := range programs {
		path, rest, _ := strings.Cut(program, ":")
		section, summary, _ := strings.Cut(rest, ":")
		number, err := strconv.Atoi(section)
		if err != nil {
			return fmt.Errorf("read %q: %w; want PROGRAM:SECTION:SUMMARY", program, err)
		}
		of, err := commandPages(path, nil, number, summary)
		if err != nil {
			return err
		}
		pages = append(pages, of...)
	}
	for _, p := range pages {
		p.Version, p.Date = footer, time.Unix(date, 0)
		p.SeeAlso = seeAlso(p, pages, see)
		if err := write(out, p); err != nil {
			return fmt.Errorf("write the manual page of %s: %w", p.Name, err)
		}
	}
	return nil
}

func seeAlso(page manpage.Page, pages []manpage.Page, see string) (names []string) {
	if see != "" {
		names = append(names, see)
	}
	first := pages[0].Name
	for _, other := range pages {
		if other.Name != page.Name && (page.Name == first || other.Name == first) {
			names = append(names, other.Reference())
		}
	}
	slices.Sort(names)
	return names
}

// commandPages returns the page of a program or of one of its commands, and those of the commands below it.
func commandPages(program string, words []string, section int, summary string) ([]manpage.Page, error) {
	help, err := output(program, append(slices.Clone(words), "--help")...)
	if err != nil {
		return nil, err
	}
	if strings.Contains(help, " exit-codes ") { // among the help topics
		codes, err := output(program, "help", "exit-codes")
		if err != nil {
			return nil, err
		}
		help += "\n" + codes
	}
	name := strings.Join(append([]string{filepath.Base(program)}, words...), " ")
	pages := []manpage.Page{{Name: name, Section: section, Summary: summary, Help: help}}
	names, summaries := manpage.Commands(help)
	for _, command := range names {
		below := append(slices.Clone(words), command)
		more, err := commandPages(program, below, section, lowerFirst(summaries[command]))
		if err != nil {
			return nil, err
		}
		pages = append(pages, more...)
	}
	return pages, nil
}

func output(program string, args ...string) (string, error) {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("read the help of %s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// lowerFirst turns a sentence into the summary of a manual page (lexgrog(1)).
func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}

func write(out string, p manpage.Page) error {
	dir := filepath.Join(out, fmt.Sprintf("man%d", p.Section))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, p.File()))
	if err != nil {
		return err
	}
	if err := p.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
