package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/doctor"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Check CDI spec files as a runtime would read them",
		Long: `Check CDI spec files with the CDI library that runtimes use. For an invalid file a
runtime reports only that a device is unresolvable; validate reports why. It also
reports devices that two files of one directory define, because runtimes refuse them.
A directory means all files in it that end in .json, .yaml or .yml; - is standard input.`,
		Example: "  cdi-gen validate /etc/cdi /var/run/cdi",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("name at least one file or directory")
			}
			if slices.Contains(args, "") { // "" would mean the working directory
				return cli.Usagef("an empty argument; is a variable of the shell not set?")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			files := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == stdinArgument })
			found, err := allSpecFiles(files)
			if len(files) < len(args) {
				data, unread := yamlread.Spec.ReadArgument(stdinArgument, cmd.InOrStdin())
				if unread != nil {
					return fmt.Errorf("validate -: %w", unread)
				}
				spec, fault := cdi.ParseSpec(data)
				found = append(found, cdi.SpecFile{Path: "standard input", Mode: 0o644, Spec: spec, Err: fault})
			}
			report := doctor.Validate(found)
			if err := doctorWriters["table"](cmd.OutOrStdout(), report); err != nil {
				return fmt.Errorf("write result: %w", err)
			}
			err = errors.Join(err, judgeDirsOf(cmd, files))
			switch bad := report.Summary.Worst().Bad(); {
			case bad && err == nil:
				err = coded(exitInvalid, errSaid)
			case bad:
				err = coded(exitInvalid, err)
			case err == nil && report.Summary[finding.NotSeen] > 0:
				err = coded(exitIO, errSaid)
			}
			return err
		},
	}
}

// stdinArgument is standard input as a file argument.
const stdinArgument = "-"

// allSpecFiles returns the spec files that arguments name, each once.
func allSpecFiles(args []string) (all []cdi.SpecFile, err error) {
	for _, arg := range args {
		files, unread := specFiles(arg)
		if unread != nil {
			err = errors.Join(err, fmt.Errorf("validate %q: %w", arg, unread))
		}
		for _, f := range files {
			if !slices.ContainsFunc(all, func(other cdi.SpecFile) bool { return other.Path == f.Path }) {
				all = append(all, f)
			}
		}
	}
	return all, err
}

// specFiles returns the file that an argument names, or the spec files of a directory. It includes files with the wrong
// extension .yml.
func specFiles(arg string) ([]cdi.SpecFile, error) {
	host := hostfs.DirFS("/")
	abs, err := filepath.Abs(arg)
	if err != nil {
		return nil, err
	}
	if info, err := hostfs.Stat(host, abs); err != nil || !info.IsDir() {
		return []cdi.SpecFile{cdi.ReadFile(host, abs)}, nil
	}
	files := cdi.ReadDirs(host, abs)
	if len(files) == 0 {
		return nil, invalidf("no file in it ends in .json or .yaml")
	}
	return files, nil
}

func invalidf(format string, args ...any) error {
	return coded(exitInvalid, fmt.Errorf(format, args...))
}
