// Package manpage makes manual pages from what a program prints for --help, so
// that the two cannot say different things.
//
// It reads the help of programs written with cobra, and of others that follow its
// form: text, and sections that begin with a heading on a line of its own, such as
// "Flags:". Indented lines are kept as they are, others are filled.
package manpage

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Page is one manual page.
type Page struct {
	// Name is that of the command, "cdi-gen list".
	Name string
	// Section of the manual: 1 for users' commands, 8 for those that programs start.
	Section int
	// Summary says in a line what the command does.
	Summary string
	// Help is what the command prints for --help.
	Help string
	// Version and Date of the package stand in the footer.
	Version string
	Date    time.Time
	// SeeAlso names other pages: "cdi-gen(1)".
	SeeAlso []string
}

// File is the file name of the page.
func (p Page) File() string { return fmt.Sprintf("%s.%d", p.title(), p.Section) }

// Reference is how other pages name this one.
func (p Page) Reference() string { return fmt.Sprintf("%s(%d)", p.title(), p.Section) }

func (p Page) title() string { return strings.ReplaceAll(p.Name, " ", "-") }

// headings maps those of the help to the traditional ones (man-pages(7)). The topics have no page.
var headings = map[string]string{
	"Usage":              "SYNOPSIS",
	"Available Commands": "COMMANDS",
	"Flags":              "OPTIONS",
	"Global Flags":       "GLOBAL OPTIONS",
	"Examples":           "EXAMPLES",
	"Exit codes":         "EXIT STATUS",
	"Aliases":            "ALIASES",

	"Additional help topics": "",
}

// order is that of the sections in a page.
var order = []string{"SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "GLOBAL OPTIONS", "ALIASES", "EXIT STATUS", "EXAMPLES"}

// Write writes the page for groff and mandoc.
func (p Page) Write(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, ".TH %s %d %s %s\n", quote(strings.ToUpper(p.title())), p.Section, quote(p.Date.UTC().Format(time.DateOnly)), quote(p.Version))
	fmt.Fprintf(b, ".SH NAME\n%s \\- %s\n", escape(p.title()), escape(p.Summary))
	sections := parse(p.Help)
	for _, name := range order {
		lines := sections[name]
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(b, ".SH %s\n", name)
		switch name {
		case "OPTIONS", "GLOBAL OPTIONS", "COMMANDS":
			writeTerms(b, lines)
		default:
			writeText(b, lines)
		}
	}
	if len(p.SeeAlso) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", escape(strings.Join(p.SeeAlso, ", ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// parse splits a help into its sections. Text before the first heading, and text
// without indentation below one, is the description.
func parse(help string) map[string][]string {
	sections := map[string][]string{}
	at := "DESCRIPTION"
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, " \n")
		if name, ok := headings[strings.TrimSuffix(line, ":")]; ok && strings.HasSuffix(line, ":") {
			at = name
			continue
		}
		if strings.HasPrefix(line, `Use "`) { // cobra's hint to --help
			continue
		}
		if line != "" && line[0] != ' ' {
			at = "DESCRIPTION"
		}
		sections[at] = append(sections[at], line)
	}
	for name, lines := range sections {
		sections[name] = trimBlank(lines)
	}
	return sections
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// writeText writes paragraphs, which are filled, and indented blocks, which are not.
func writeText(w io.Writer, lines []string) {
	verbatim := false
	for i, line := range lines {
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "" && verbatim && i+1 < len(lines) && strings.HasPrefix(lines[i+1], " "):
		case line == "":
			if !verbatim {
				fmt.Fprintln(w, ".PP")
			}
			continue
		case indented && !verbatim:
			fmt.Fprintln(w, ".PP\n.nf")
		case !indented && verbatim:
			fmt.Fprintln(w, ".fi\n.PP")
		}
		verbatim = indented || verbatim && line == ""
		fmt.Fprintln(w, escape(strings.TrimRight(line, " ")))
	}
	if verbatim {
		fmt.Fprintln(w, ".fi")
	}
}

// term is a flag or a command and what is said of it.
var term = regexp.MustCompile(`^ +(\S.*?)  +(\S.*)$`)

// writeTerms writes a list of flags or commands with their explanations.
func writeTerms(w io.Writer, lines []string) {
	for _, line := range lines {
		if m := term.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", escape(m[1]), escape(m[2]))
			continue
		}
		switch text := strings.TrimSpace(line); {
		case text == "":
		case strings.HasPrefix(text, "--"):
			fmt.Fprintf(w, ".TP\n.B %s\n", escape(text))
		default:
			fmt.Fprintln(w, escape(text))
		}
	}
}

// Commands returns the subcommands that a help lists, with their summaries, but
// not those that cobra adds to every program.
func Commands(help string) (names []string, summary map[string]string) {
	summary = map[string]string{}
	for _, line := range parse(help)["COMMANDS"] {
		m := term.FindStringSubmatch(line)
		if m == nil || slices.Contains([]string{"completion", "help"}, m[1]) {
			continue
		}
		names = append(names, m[1])
		summary[m[1]] = m[2]
	}
	return names, summary
}

// escape protects what roff would act on (groff(7)).
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }
