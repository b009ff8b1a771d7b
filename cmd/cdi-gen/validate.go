package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
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
			err := validate(cmd.OutOrStdout(), files)
			if len(files) < len(args) {
				err = errors.Join(err, validateStdin(cmd))
			}
			return errors.Join(err, judgeDirsOf(cmd, files))
		},
	}
}

// stdinArgument is standard input as a file argument.
const stdinArgument = "-"

// validateStdin checks a spec on standard input.
func validateStdin(cmd *cobra.Command) error {
	data, err := yamlread.Spec.ReadArgument(stdinArgument, cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("validate -: %w", err)
	}
	spec, err := cdi.ParseSpec(data)
	if err != nil {
		return fmt.Errorf("validate -: %w", &cli.Coded{Code: exitInvalid, Err: err})
	}
	return printValid(cmd.OutOrStdout(), "standard input", spec)
}

// validate checks all files, and prints a line for each valid one.
func validate(w io.Writer, args []string) error {
	var errs []error
	var all []cdi.SpecFile
	for _, arg := range args {
		files, err := specFiles(arg)
		if err != nil {
			errs = append(errs, fmt.Errorf("validate %q: %w", arg, err))
		}
		for _, f := range files {
			if err := fault(f); err != nil {
				errs = append(errs, fmt.Errorf("validate %q: %w", f.Path, err))
			} else if err := printValid(w, f.Path, f.Spec); err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(other cdi.SpecFile) bool { return other.Path == f.Path }) {
				all = append(all, f)
			}
		}
	}
	return errors.Join(append(errs, refused(cdi.Resolve(all)))...)
}

func printValid(w io.Writer, name string, spec *specs.Spec) error {
	_, err := fmt.Fprintf(w, "%s: valid, CDI %s, kind %s, %s\n", name, spec.Version, spec.Kind, devices(spec))
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
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

// fault returns why runtimes, also those of users, get no spec from a file.
func fault(f cdi.SpecFile) error {
	switch {
	case f.Unread():
		return f.Err
	case f.Err != nil:
		return &cli.Coded{Code: exitInvalid, Err: f.Err}
	case f.Mode.Perm()&0o004 == 0:
		return invalidf("mode %04o hides it from rootless podman: chmod 0644 it", f.Mode.Perm())
	}
	return nil
}

func invalidf(format string, args ...any) error {
	return &cli.Coded{Code: exitInvalid, Err: fmt.Errorf(format, args...)}
}
