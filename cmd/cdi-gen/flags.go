package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// complete sets the completions of flags.
func complete(root *cobra.Command) {
	values := map[string][]string{
		"names": words(cdi.NameStrategies), "nodes": words(rdma.NodeClasses),
		"userspace": {hostconfig.UserspaceImage, hostconfig.UserspaceHost}, "target": runtimes.Known(),
		"memlock": {"unlimited"}, "on-denied": words(args.OnDeniedValues),
		"kind": {cdi.KindHCA}, "on-unusable": words(args.OnUnusableValues),
	}
	specs := []string{string(cdi.JSON), string(cdi.YAML)}
	formats := map[string][]string{
		"generate": specs, "watch": specs,
		"list": slices.Sorted(maps.Keys(listWriters)), "doctor": slices.Sorted(maps.Keys(doctorWriters)),
		"devices":   slices.Sorted(maps.Keys(devicesWriters)),
		"topology":  slices.Sorted(maps.Keys(topologyWriters))[1:], // without the default, which has no name
		"userspace": slices.Sorted(maps.Keys(userspaceWriters)),
	}
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			list := values[f.Name]
			if f.Name == "output" {
				list = formats[cmd.Name()]
			}
			do := cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
			if f.Name == "device" || f.Name == "exclude" {
				do = completeDevice
			} else if list == nil {
				return
			}
			if err := cmd.RegisterFlagCompletionFunc(f.Name, do); err != nil {
				panic(err) // the flag does not exist, or already has a completion
			}
		})
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
