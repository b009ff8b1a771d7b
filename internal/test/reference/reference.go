// Package reference writes the reference pages in docs/reference: the commands, flags and exit codes of a program, as
// --help shows them. Tests of the programs compare the pages with it, and `make golden` writes them.
package reference

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
)

// ExitCodes is the table of the exit codes of a command.
func ExitCodes(command string, codes exitcode.List) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| `%s` | meaning |\n|---|---|\n", command)
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		fmt.Fprintf(&b, "| %d | %s |\n", code, codes[code])
	}
	return b.String()
}

// Page is the page of a program, made by cobra/doc. What cobra/doc writes into one file for each command, Page writes
// one below the other. It differs in three points: a long description keeps its lines, and its <words>, as in --help;
// links lead to the heading of a command; flags of the program stand once, and not again below each command. A flag
// with several values must say so.
func Page(root *cobra.Command) []byte {
	var b bytes.Buffer
	const head = "# %[1]s: commands, flags, exit codes\n\n" +
		"What `%[1]s --help` and the help of its commands print.\n"
	fmt.Fprintf(&b, head, root.CommandPath())
	root.DisableAutoGenTag = true
	write(&b, root)
	return b.Bytes()
}

// write adds a command and its subcommands.
func write(b *bytes.Buffer, cmd *cobra.Command) {
	if cmd.Long != "" {
		cmd.Long = "```text\n" + strings.TrimSpace(cmd.Long) + "\n```"
	}
	cmd.Example = unindent(cmd.Example)
	b.WriteString("\n")
	if err := doc.GenMarkdownCustom(cmd, b, heading); err != nil {
		panic(err) // a buffer takes everything
	}
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")) + 1)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		several := strings.HasSuffix(f.Value.Type(), "Slice") || strings.HasSuffix(f.Value.Type(), "Array")
		if several && !strings.Contains(f.Usage, "(repeatable)") && !strings.Contains(strings.ToLower(f.Usage), "list") {
			panic(cmd.CommandPath() + " --" + f.Name + " does not say (repeatable), or that it takes a list")
		}
	})
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() && below.Name() != "help" && below.Name() != "completion" {
			write(b, below)
		}
	}
}

// heading returns the anchor of a command for the file name that cobra/doc gives it.
func heading(file string) string {
	return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
}

// unindent removes the indentation of the first line from all lines.
func unindent(s string) string {
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimPrefix(line, indent))
	}
	return strings.TrimRight(b.String(), "\n")
}
