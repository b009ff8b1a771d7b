package manpage

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

const help = `Show things.
A line that starts with a dot is text:
.hidden and 'quoted' and a back\slash.

  an indented block

  of two parts
And text.

Exit codes:
  0  done
 10  not done

Usage:
  prog list [flags]

Examples:
  prog list -o name

Available Commands:
  completion  Generate the autocompletion script
  deep        Show deep things
  help        Help about any command

Flags:
  -h, --help            help for list
      --host-root dir   a directory
                        that goes on here
      --long-flag-without-text

Use "prog list [command] --help" for more information about a command.
`

// TestWrite: a page has the traditional sections in the traditional order, and
// nothing that roff would act on.
func TestWrite(t *testing.T) {
	p := Page{Name: "prog list", Section: 1, Summary: "show things", Help: help, Version: "prog 1.0", Date: time.Unix(0, 0), SeeAlso: []string{"prog(1)"}}
	var b strings.Builder
	must.NoError(t, p.Write(&b))
	const want = `.TH "PROG\-LIST" 1 "1970\-01\-01" "prog 1.0"
.SH NAME
prog\-list \- show things
.SH SYNOPSIS
.PP
.nf
  prog list [flags]
.fi
.SH DESCRIPTION
Show things.
A line that starts with a dot is text:
\&.hidden and \(aqquoted\(aq and a back\eslash.
.PP
.PP
.nf
  an indented block

  of two parts
.fi
.PP
And text.
.SH COMMANDS
.TP
.B completion
Generate the autocompletion script
.TP
.B deep
Show deep things
.TP
.B help
Help about any command
.SH OPTIONS
.TP
.B \-h, \-\-help
help for list
.TP
.B \-\-host\-root dir
a directory
that goes on here
.TP
.B \-\-long\-flag\-without\-text
.SH EXIT STATUS
.PP
.nf
  0  done
 10  not done
.fi
.SH EXAMPLES
.PP
.nf
  prog list \-o name
.fi
.SH SEE ALSO
prog(1)
`
	test.Eq(t, want, b.String(), test.Sprint("page"))
	if p.File() != "prog-list.1" || p.Reference() != "prog-list(1)" {
		t.Errorf("file %s, reference %s", p.File(), p.Reference())
	}
}

func TestCommands(t *testing.T) {
	names, summaries := Commands(help)
	if len(names) != 1 || names[0] != "deep" || summaries["deep"] != "Show deep things" {
		t.Errorf("commands %q, %q", names, summaries)
	}
	if names, _ := Commands("no commands"); len(names) != 0 {
		t.Errorf("commands of a program without any: %q", names)
	}
}

// FuzzWrite: no help makes a line that roff would take for a request of its own.
func FuzzWrite(f *testing.F) {
	f.Add(help)
	f.Add("Flags:\n .x\n'y\n  .a  .b")
	f.Fuzz(func(t *testing.T, help string) {
		var b strings.Builder
		must.NoError(t, (Page{Name: "p", Section: 1, Help: help}).Write(&b))
		requests := map[string]bool{".TH": true, ".SH": true, ".PP": true, ".nf": true, ".fi": true, ".TP": true, ".B": true}
		for line := range strings.Lines(b.String()) {
			word, _, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !requests[word] {
				t.Errorf("line %q", line)
			}
		}
	})
}
