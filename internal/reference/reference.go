// Package reference writes the reference page of a program from its commands and flags:
// what --help says, as Markdown. Tests of the programs compare the pages in docs/reference
// with it, and make golden writes them.
package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is the page of a program. The name is that of the root command.
func Page(root *cobra.Command) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: commands, flags, exit codes\n\nMade from the program itself by `make golden`; `%s --help` says the same.\n", root.CommandPath(), root.CommandPath())
	write(&b, root)
	return []byte(b.String())
}

// write adds a command and those below it.
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

// byDefault is the default of a flag, nothing where it is the value of its type that stands
// for nothing.
func byDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]", "false", "0s":
		return ""
	}
	return "`" + cell(f.DefValue) + "`"
}

// cell keeps a text in one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// unindent takes the indentation of the first line off all lines.
func unindent(s string) string {
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimPrefix(line, indent))
	}
	return strings.TrimRight(b.String(), "\n")
}
