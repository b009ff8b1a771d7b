package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// strict makes the commands that cobra brings, help and completion, refuse arguments
// that they do not know. On their own they end with status 0 then.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run, cmd.RunE = nil, helpOn
		case "completion":
			cmd.Args, cmd.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
		}
	}
}

// helpOn prints the help of the command that the arguments name.
func helpOn(cmd *cobra.Command, args []string) error {
	root := cmd.Root()
	named, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return usagef("unknown command %q; see %s --help", strings.Join(args, " "), root.CommandPath())
	}
	named.InitDefaultHelpFlag() // so that the help shows it
	return named.Help()
}

// noArgs refuses arguments as bad usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown argument %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
