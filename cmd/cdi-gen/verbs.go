package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newRemove() *cobra.Command {
	var out outputFlags
	var kind string
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the spec that generate wrote",
		Long: `Remove the spec that generate --output wrote, and no other file. Running containers
keep their devices; new ones can no longer ask for them.`,
		Example: "  cdi-gen remove --output /etc/cdi",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKind(kind); err != nil {
				return err
			}
			if out.toStdout() {
				return usagef("remove needs a file, or its directory: name it with --output")
			}
			return remove(cmd, kind, &out)
		},
	}
	cmd.Flags().StringVarP(&out.output, "output", "o", cdi.StaticDir, "`DIR|FILE` that generate wrote")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind, `VENDOR/CLASS`")
	return cmd
}

// remove removes the spec of a kind. A named file that is not such a spec is always an error. In a directory such a
// file is an error only if there is nothing to remove.
func remove(cmd *cobra.Command, kind string, out *outputFlags) error {
	t, format, err := out.target(kind)
	if err == nil && t.named {
		err = t.spare(format)
	}
	if err != nil {
		return err
	}
	removed, err := t.store.Remove(t.base)
	if err != nil {
		return err
	}
	if !removed {
		missing := coded{exitNothing, fmt.Errorf("no spec of kind %s in %s", kind, out.output)}
		if t.named {
			return missing
		}
		return cmp.Or(t.spare(cdi.YAML), t.spare(cdi.JSON), error(missing))
	}
	cmd.PrintErrf("removed the spec of kind %s from %s\n", kind, out.output)
	return nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run:   func(cmd *cobra.Command, _ []string) { cmd.Println(version.String("cdi-gen")) },
	}
}
