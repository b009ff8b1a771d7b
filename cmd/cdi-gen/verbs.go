package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check CDI spec files as a runtime would read them",
		Long: `Check CDI spec files with the CDI library that runtimes use. A runtime that meets a
bad file says only that a device is unresolvable; this says why.
` + exitCodesHelp,
		Example: "  cdi-gen validate /etc/cdi/*.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name at least one file; see %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, file := range args {
				spec, err := validateFile(file)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				cmd.Printf("%s: valid, CDI %s, kind %s, %d devices\n", file, spec.Version, spec.Kind, len(spec.Devices))
			}
			if err := errors.Join(errs...); err != nil {
				return coded{exitInvalid, err}
			}
			return nil
		},
	}
}

func validateFile(file string) (*cdiapi.Spec, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	if ext := filepath.Ext(file); ext != ".json" && ext != ".yaml" {
		return nil, fmt.Errorf("validate %q: runtimes read only files that end in .json or .yaml; rename it", file)
	}
	spec, err := cdiapi.ReadSpec(file, 0)
	if err != nil {
		return nil, fmt.Errorf("validate %q: %w", file, err)
	}
	if info.Mode().Perm()&0o004 == 0 {
		return nil, fmt.Errorf("validate %q: mode %04o hides it from rootless podman: chmod 0644 it", file, info.Mode().Perm())
	}
	return spec, nil
}

func newRemove() *cobra.Command {
	var dir, kind string
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the spec that generate wrote",
		Long: `Remove the spec that generate --output DIR wrote, and no other file. Running
containers keep their devices; new ones can no longer ask for them.
` + exitCodesHelp,
		Example: "  cdi-gen remove --output /etc/cdi",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !strings.Contains(kind, "/") {
				return usagef("--kind %q: want vendor/class", kind)
			}
			removed, err := cdi.Store{Dir: dir}.Remove(cdi.SpecName(kind, ""))
			if err != nil {
				return err
			}
			if !removed {
				return coded{exitNothing, fmt.Errorf("no spec of kind %s in %s", kind, dir)}
			}
			cmd.PrintErrf("removed the spec of kind %s from %s\n", kind, dir)
			return nil
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", cdi.StaticDir, "directory that generate wrote to")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind, vendor/class")
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run:   func(cmd *cobra.Command, _ []string) { cmd.Println(version.String("cdi-gen")) },
	}
}
