package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseEmpty makes the flags of all verbs refuse an empty value. In a script that is a variable
// that is not set: for --device it would mean all devices, for --host-root another host.
func refuseEmpty(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			f.Value = notEmpty{f.Value}
			if f.DefValue == "[]" {
				f.DefValue = "" // else the help shows it, since it knows the type no more
			}
		})
	}
}

// notEmpty is the value of a flag that has no empty one.
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
