// Package reference writes the reference pages in docs/reference: the commands, flags and exit codes of a program, as
// --help shows them. Tests of the programs compare the pages with it, and `make golden` writes them.
package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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

// Page is the page of a program. Its title is the name of the root command.
func Page(root *cobra.Command) []byte {
	var b strings.Builder
	const head = "# %[1]s: commands, flags, exit codes\n\n" +
		"What `%[1]s --help` and the help of its commands print.\n"
	fmt.Fprintf(&b, head, root.CommandPath())
	write(&b, root)
	return []byte(b.String())
}

// write adds a command and its subcommands.
func write(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.Runnable() {
		fmt.Fprintf(b, "\n    %s\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
	}
	table(b, "flag", cmd.NonInheritedFlags())
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() && below.Name() != "help" && below.Name() != "completion" {
			write(b, below)
		}
	}
}

// table lists flags by name.
func table(b *strings.Builder, title string, flags *pflag.FlagSet) {
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		if first {
			fmt.Fprintf(b, "\n| %s | value | default | |\n|---|---|---|---|\n", title)
			first = false
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, cell(value), byDefault(f), cell(usage))
	})
}

// byDefault is the default of a flag, "" if it is the zero value of its type.
func byDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]", "false", "0s":
		return ""
	}
	return "`" + cell(f.DefValue) + "`"
}

// cell escapes a text for one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
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
