package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

func newRemove() *cobra.Command {
	var out outputFlags
	var kind string
	var all bool
	var dirs []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the spec that generate wrote",
		Long: `Remove the spec that generate --to wrote, and no other file. Running containers
keep their devices; new ones can no longer ask for them.

With --all, remove every spec of the kind in the directories that runtimes read,
whatever its file's name. Stop cdi-gen watch first, which would write it again.`,
		Example: `  cdi-gen remove --from /etc/cdi
  cdi-gen remove --all --dry-run`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKind(kind); err != nil {
				return err
			}
			r := remover{cmd: cmd, kind: kind, dryRun: dryRun}
			switch set := cmd.Flags().Changed; {
			case all && set("from"):
				return cli.Usagef("--all looks in the directories of --spec-dir: give it without --from")
			case all:
				return r.removeAll(dirs)
			case set("spec-dir"):
				return cli.Usagef("--spec-dir is for --all: name a single directory with --from")
			case out.toStdout():
				return cli.Usagef("remove needs a file, or its directory: name it with --from")
			}
			return r.remove(&out)
		},
	}
	out.flag = "--from"
	cmd.Flags().StringVar(&out.path, "from", cdi.StaticDir, "`DIR|FILE` that generate wrote")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed and remove nothing")
	cmd.Flags().StringVar(&kind, "kind", cdi.KindHCA, "CDI kind, `VENDOR/CLASS`")
	cmd.Flags().BoolVar(&all, "all", false, "remove all specs of the kind in all directories")
	cmd.Flags().StringSliceVar(&dirs, "spec-dir", []string{cdi.StaticDir, cdi.DynamicDir},
		"`DIR` for --all (repeatable)")
	return cmd
}

// remover removes the specs of a kind, or prints which it would remove.
type remover struct {
	cmd    *cobra.Command
	kind   string
	dryRun bool
}

// take removes the spec with a base name in both formats, and reports whether there was one.
func (r *remover) take(store cdi.Store, base string) (bool, error) {
	if !r.dryRun {
		return store.Remove(base)
	}
	found := false
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		_, err := store.Load(base, format)
		if _, foreign := errors.AsType[*cdi.ForeignError](err); foreign || errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return found, err
		}
		found = true
	}
	return found, nil
}

// took is the beginning of the line for a spec.
func (r *remover) took() string {
	if r.dryRun {
		return "would remove"
	}
	return "removed"
}

// remove removes the spec of a kind. A named file that is not such a spec is always an error. In a directory such a
// file is an error only if there is nothing to remove.
func (r *remover) remove(out *outputFlags) error {
	t, format, err := out.target(r.kind)
	if err == nil && t.named {
		err = t.spare(format)
	}
	if err != nil {
		return err
	}
	removed, err := r.take(t.store, t.base)
	if err != nil {
		return err
	}
	if !removed {
		missing := &cli.Coded{Code: exitNothing, Err: fmt.Errorf("no spec of kind %s in %s", r.kind, out.path)}
		if t.named {
			return missing
		}
		return cmp.Or(t.spare(cdi.YAML), t.spare(cdi.JSON), error(missing))
	}
	r.cmd.PrintErrf("%s the spec of kind %s from %s\n", r.took(), r.kind, out.path)
	return nil
}

// removeAll removes each spec of a kind from directories. After an error it goes on with the next file. It keeps all
// other files, and names those that it cannot read and those that a missing hook would break. The removal of the package
// calls it, so a broken file of somebody else is no error.
func (r *remover) removeAll(dirs []string) error {
	dirs, err := specDirs("/", dirs)
	if err != nil {
		return err
	}
	var errs []error
	found := false
	kept := keptFiles{cmd: r.cmd}
	for _, dir := range dirs {
		store, seen := cdi.Store{Dir: dir, Kind: r.kind}, map[string]bool{}
		err := hostfs.EachLocal(dir, func(e fs.DirEntry) error {
			base, format := specBase(e.Name())
			if format == "" {
				return nil
			}
			_, err := store.Load(base, format)
			switch _, foreign := errors.AsType[*cdi.ForeignError](err); {
			case err == nil && seen[base]: // with its twin
			case err == nil:
				seen[base] = true
				removed, err := r.take(store, base)
				errs = append(errs, err)
				if found = found || removed; removed {
					r.cmd.PrintErrf("%s the spec %s of kind %s from %s\n", r.took(), base, r.kind, dir)
				}
			case !foreign && !errors.Is(err, fs.ErrNotExist) && base == cdi.SpecName(r.kind, ""): // by its name it is ours
				errs = append(errs, err)
			default:
				kept.add(cdi.ReadFile(hostfs.DirFS("/"), filepath.Join(dir, e.Name())))
			}
			return nil
		})
		switch named := r.cmd.Flags().Changed("spec-dir"); {
		case err == nil || errors.Is(err, fs.ErrNotExist):
		case !named && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)): // so it has no spec of ours
			r.cmd.PrintErrf("warning: %s stays: it is no directory, so no runtime finds a spec there\n", dir)
		default:
			errs = append(errs, fmt.Errorf("list CDI specs: %w", err))
		}
	}
	kept.end()
	if err := errors.Join(errs...); err != nil || found {
		return err
	}
	return &cli.Coded{Code: exitNothing, Err: fmt.Errorf("no spec of kind %s in %s", r.kind, strings.Join(dirs, " and "))}
}

// specBase splits the name of a spec's file. The format of any other file is "".
func specBase(name string) (base string, format cdi.Format) {
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		if base, ok := strings.CutSuffix(name, "."+string(format)); ok && base != "" {
			return base, format
		}
	}
	return "", ""
}

// keptFiles warns of files that stay. It names only the first unreadable ones, because there may be any number.
type keptFiles struct {
	cmd        *cobra.Command
	unreadable int
}

const maxNamed = 20

func (k *keptFiles) add(f cdi.SpecFile) {
	switch {
	case f.Spec != nil:
		k.addSpec(f.Path, f.Spec)
	case errors.Is(f.Err, fs.ErrNotExist): // a link to nothing, or removed with its twin
	default:
		if k.unreadable++; k.unreadable <= maxNamed {
			k.cmd.PrintErrf("warning: %q stays: it cannot be read as a CDI spec: %v\n", f.Path, reason(f.Err))
		}
	}
}

// addSpec warns of a spec that runs the hook. Its containers need the hook, which the caller may remove next.
func (k *keptFiles) addSpec(path string, spec *specs.Spec) {
	for _, e := range cdi.Edits(spec) {
		for _, h := range e.Hooks {
			if filepath.Base(h.Path) == filepath.Base(defaultHookPath) {
				k.cmd.PrintErrf("warning: %q stays, a spec of kind %s: without %s, no container with its devices starts\n",
					path, spec.Kind, h.Path)
				return
			}
		}
	}
}

func (k *keptFiles) end() {
	if more := k.unreadable - maxNamed; more > 0 {
		k.cmd.PrintErrf("warning: %s more that cannot be read as CDI specs stay\n", text.Count(more, "file"))
	}
}

// reason returns an error without the path.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
