package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newRemove() *cobra.Command {
	var out outputFlags
	var kind string
	var all bool
	var dirs []string
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the spec that generate wrote",
		Long: `Remove the spec that generate --output wrote, and no other file. Running containers
keep their devices; new ones can no longer ask for them.

With --all, remove every spec of the kind in the directories that runtimes read,
whatever its file's name. Stop cdi-gen watch first, which would write it again.`,
		Example: `  cdi-gen remove --output /etc/cdi
  cdi-gen remove --all`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKind(kind); err != nil {
				return err
			}
			switch set := cmd.Flags().Changed; {
			case all && set("output"):
				return usagef("--all looks in the directories of --spec-dir: give it without --output")
			case all:
				return removeAll(cmd, kind, dirs)
			case set("spec-dir"):
				return usagef("--spec-dir is for --all: name a single directory with --output")
			case out.toStdout():
				return usagef("remove needs a file, or its directory: name it with --output")
			}
			return remove(cmd, kind, &out)
		},
	}
	cmd.Flags().StringVarP(&out.output, "output", "o", cdi.StaticDir, "`DIR|FILE` that generate wrote")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind, `VENDOR/CLASS`")
	cmd.Flags().BoolVar(&all, "all", false, "remove all specs of the kind in all directories")
	cmd.Flags().StringSliceVar(&dirs, "spec-dir", []string{cdi.StaticDir, cdi.DynamicDir},
		"`DIR` for --all (repeatable)")
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

// removeAll removes each spec of a kind from directories. It keeps all other files, and names those that a missing
// hook would break. After an error it goes on with the next file.
func removeAll(cmd *cobra.Command, kind string, dirs []string) error {
	var errs []error
	found := false
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("list CDI specs: %w", err))
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			base, isSpec := specBase(e.Name())
			if !isSpec {
				continue
			}
			removed, err := cdi.Store{Dir: dir, Kind: kind}.Remove(base)
			switch {
			case err != nil:
				errs = append(errs, err)
			case removed:
				found = true
				cmd.PrintErrf("removed the spec %s of kind %s from %s\n", base, kind, dir)
			default:
				warnHook(cmd, path)
			}
		}
	}
	if len(errs) == 0 && !found {
		return coded{exitNothing, fmt.Errorf("no spec of kind %s in %s", kind, strings.Join(dirs, " and "))}
	}
	return errors.Join(errs...)
}

// specBase returns a file's name without the ending of a spec.
func specBase(name string) (base string, isSpec bool) {
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		if base, ok := strings.CutSuffix(name, "."+string(format)); ok && base != "" {
			return base, true
		}
	}
	return "", false
}

// warnHook names a remaining spec that runs the hook. Its containers need the hook, which the caller may remove next.
func warnHook(cmd *cobra.Command, path string) {
	spec, err := cdi.ReadSpec(path)
	if err != nil {
		return // runtimes refuse the file as well
	}
	for _, e := range cdi.Edits(spec) {
		for _, h := range e.Hooks {
			if filepath.Base(h.Path) == filepath.Base(defaultHookPath) {
				cmd.PrintErrf("warning: %s stays, a spec of kind %s: without %s, no container with its devices starts\n",
					path, spec.Kind, h.Path)
				return
			}
		}
	}
}
