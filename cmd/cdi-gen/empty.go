package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
