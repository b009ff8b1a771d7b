package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

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
				return usagef("name at least one file or directory")
			}
			if slices.Contains(args, "") { // "" would mean the working directory
				return usagef("an empty argument; is a variable of the shell not set?")
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
		return fmt.Errorf("validate -: %w", coded{exitInvalid, err})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "standard input: valid, CDI %s, kind %s, %s\n", spec.Version, spec.Kind,
		devices(spec))
	return err
}

// validate checks all files, and prints a line for each valid one.
func validate(w io.Writer, args []string) error {
	var errs []error
	seen := map[string]string{} // the file of each device in each directory
	for _, arg := range args {
		files, err := specFiles(filepath.Clean(arg))
		if err != nil {
			errs = append(errs, fmt.Errorf("validate %q: %w", arg, err))
		}
		for _, file := range files {
			spec, err := validateFile(file)
			if err == nil {
				err = conflicts(seen, file, spec)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("validate %q: %w", file, err))
				continue
			}
			if _, err := fmt.Fprintf(w, "%s: valid, CDI %s, kind %s, %s\n", file, spec.Version, spec.Kind,
				devices(spec)); err != nil {
				return fmt.Errorf("write result: %w", err)
			}
		}
	}
	return errors.Join(errs...)
}

// specFiles returns the file that an argument names, or the spec files of a directory. It includes files with the wrong
// extension .yml.
func specFiles(arg string) ([]string, error) {
	if info, err := os.Stat(arg); err != nil || !info.IsDir() {
		return []string{arg}, nil
	}
	var files []string
	err := hostfs.EachLocal(arg, func(e fs.DirEntry) error {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".json" || ext == ".yaml" || ext == ".yml") {
			files = append(files, filepath.Join(arg, e.Name()))
		}
		if len(files) > hostfs.MaxEntries {
			return invalidf("it has more than %d files that end in .json or .yaml: remove those that are no CDI specs",
				hostfs.MaxEntries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, invalidf("no file in it ends in .json or .yaml")
	}
	slices.Sort(files)
	return files, nil
}

func validateFile(file string) (*specs.Spec, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if ext := filepath.Ext(file); ext != ".json" && ext != ".yaml" {
		return nil, invalidf("runtimes read only files that end in .json or .yaml; rename it")
	}
	if !info.Mode().IsRegular() {
		return nil, invalidf("it is no regular file: runtimes would wait for it, or pass over it")
	}
	spec, err := cdi.ReadSpec(file)
	if err != nil {
		return nil, coded{exitInvalid, err}
	}
	if info.Mode().Perm()&0o004 == 0 {
		return nil, invalidf("mode %04o hides it from rootless podman: chmod 0644 it", info.Mode().Perm())
	}
	return spec, nil
}

// conflicts records the devices of a file, and returns an error for devices that another file of its directory defines
// too.
func conflicts(seen map[string]string, file string, spec *specs.Spec) error {
	var errs []error
	for _, d := range spec.Devices {
		name := cdi.Qualified(spec.Kind, d.Name)
		key := filepath.Join(filepath.Dir(file), name)
		if other, ok := seen[key]; ok && other != file {
			errs = append(errs, invalidf("%s also stands in %q: runtimes refuse a device that two files of one directory define",
				name, other))
			continue
		}
		seen[key] = file
	}
	return errors.Join(errs...)
}

func invalidf(format string, args ...any) error {
	return coded{exitInvalid, fmt.Errorf(format, args...)}
}
