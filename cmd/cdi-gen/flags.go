package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeDevices makes the shells offer the host's devices for the flags that choose some.
func completeDevices(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		for _, flag := range []string{"device", "exclude"} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			if err := cmd.RegisterFlagCompletionFunc(flag, completeDevice); err != nil {
				panic(err) // it has a completion already
			}
		}
	}
}

// completeDevice lists the names of the host's devices.
func completeDevice(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	root, err := cmd.Flags().GetString("host-root")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	snap, _, err := (&hostFlags{root: root}).discover()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, h := range snap.Usable() {
		names = append(names, h.IBDev, h.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// refuseEmpty makes the flags of all commands reject an empty value, which an unset variable in a script causes. An
// empty --device would mean all devices, and an empty --host-root another host.
func refuseEmpty(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			f.Value = notEmpty{f.Value}
			if f.DefValue == "[]" {
				f.DefValue = "" // otherwise the help shows it, because it no longer knows the type
			}
		})
	}
}

// notEmpty is a flag value that rejects an empty string.
type notEmpty struct{ pflag.Value }

var errEmpty = errors.New("an empty value; is a variable of the shell not set?")

// Set implements pflag.Value.
func (v notEmpty) Set(s string) error {
	parts := []string{s}
	if v.Type() == "stringSlice" {
		parts = strings.Split(s, ",")
	}
	if slices.ContainsFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" }) {
		return errEmpty
	}
	return v.Value.Set(s)
}
