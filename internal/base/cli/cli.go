// Package cli is what the programs with commands have in common: how they fail, help, and print their version.
//
// Nothing in it may need text/template: templates find methods by name, so the linker would keep every method, and
// cdi-gen would grow by half.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
)

// Coded is an error with an exit code of its own.
type Coded struct {
	Code int
	Err  error
}

func (c *Coded) Error() string { return c.Err.Error() }
func (c *Coded) Unwrap() error { return c.Err }

// Usagef returns an error in flags or arguments.
func Usagef(format string, args ...any) error {
	return &Coded{Code: exitcode.Usage, Err: fmt.Errorf(format, args...)}
}

// Run runs the command that the arguments name, and returns the exit code. An error before that command begins is one
// of usage. Message returns what an error says on stderr, "" for nothing.
func Run(
	ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer, message func(error) string,
) int {
	stdout, stderr = text.Writer(stdout), text.Writer(stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "bool" {
			err = fmt.Errorf("--%s %q: want true or false", bad.GetFlag().Name, bad.GetValue())
		}
		return Usagef("%w%s", err, suggestFlag(cmd, err))
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	began := false
	prepare(root, &began)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitcode.OK
	}
	code := exitcode.Failed
	if coded, ok := errors.AsType[*Coded](err); ok {
		code = coded.Code
	} else if !began {
		code = exitcode.Usage
	}
	said := message(err)
	if code == exitcode.Usage {
		said = text.WithHint(said, cmd.CommandPath())
	}
	if said != "" {
		fmt.Fprintln(stderr, text.Message(said))
	}
	return code
}

// prepare makes a command, and those below it, reject what cobra accepts by default. It sets began when one begins.
func prepare(cmd *cobra.Command, began *bool) {
	if cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = 2
		cmd.Args = NoArgs
		if !cmd.Runnable() {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if cmd.Name() == "help" && cmd.Parent() == cmd.Root() {
		cmd.Run, cmd.RunE = nil, helpOn
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	for _, below := range cmd.Commands() {
		prepare(below, began)
	}
}

// AddVersion adds the flag --version and the command version. Cobra's own flag needs text/template.
func AddVersion(root *cobra.Command, program string) {
	wanted, run := root.Flags().Bool("version", false, "print the version"), root.RunE
	print := func(cmd *cobra.Command) { cmd.Println(version.String(program)) }
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *wanted:
			print(cmd)
			return nil
		case run == nil:
			return cmd.Help()
		}
		return run(cmd, args)
	}
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { print(cmd) },
	})
}

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	what := "argument"
	if cmd.HasAvailableSubCommands() {
		what = "command"
	}
	if len(args) > 0 {
		return Usagef("unknown %s %q%s", what, args[0], suggest(cmd, args[0]))
	}
	return nil
}

// help prints the help of a command. Cobra's own help does not wrap lines.
func help(cmd *cobra.Command, _ []string) {
	out := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n"
	if cmd.Runnable() || cmd.HasSubCommands() {
		out += "\n" + cmd.UsageString()
	}
	cmd.Print(text.Help(out))
}

// helpOn prints the help of the command that the arguments name.
func helpOn(cmd *cobra.Command, args []string) error {
	root := cmd.Root()
	named, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return Usagef("unknown command %q%s; see %s --help", strings.Join(args, " "), suggest(root, args[0]),
			root.CommandPath())
	}
	named.InitDefaultHelpFlag() // so that the help shows it
	return named.Help()
}

// suggest returns the commands below cmd with a name like a typo.
func suggest(cmd *cobra.Command, typo string) string {
	if names := cmd.SuggestionsFor(typo); typo != "" && len(names) > 0 { // to cobra, "" begins every name
		return ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return ""
}

// suggestFlag returns the flags of a command with a name like the unknown one of an error.
func suggestFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return Suggest("--"+unknown.GetSpecifiedName(), names)
}

// Suggest returns those names that are like a typo, as the end of an error, or "".
func Suggest(typo string, names []string) string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands only
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return suggest(all, typo)
}
