package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// outputFlags are the flags for the file of a spec and its format.
type outputFlags struct {
	flag   string // which names the file: --to, or --from
	path   string
	format string
	quiet  bool // print nothing if nothing changes
}

func (o *outputFlags) register(f *pflag.FlagSet) {
	o.flag = "--to"
	f.StringVar(&o.path, "to", "", "`DIR|FILE` to write, .json or .yaml (default -, stdout)")
	f.StringVarP(&o.format, "output", "o", "", "`FORMAT`: json or yaml (default by --to, else yaml)")
}

// toStdout reports whether the spec is printed.
func (o *outputFlags) toStdout() bool { return o.path == "" || o.path == "-" }

// target is a file to write.
type target struct {
	store cdi.Store
	base  string
	flag  string // of the user, for errors
	named bool   // it names the file, not its directory
	quiet bool   // print nothing if nothing changes
}

// path returns the path of the spec in a format.
func (t *target) path(format cdi.Format) string { return t.store.Path(t.base, format) }

// target returns the file for the spec of a kind, and its format. A nil target means standard output.
func (o *outputFlags) target(kind string) (*target, cdi.Format, error) {
	format := cdi.YAML
	if o.format != "" {
		var err error
		if format, err = cdi.ParseFormat(o.format); err != nil {
			return nil, "", cli.Usagef("--output: %w; a file or directory is for --to", err)
		}
	}
	if o.toStdout() {
		return nil, format, nil
	}
	t := &target{
		store: cdi.Store{Dir: o.path, Sync: true, Kind: kind}, base: cdi.SpecName(kind, ""), flag: o.flag, quiet: o.quiet,
	}
	ext := strings.TrimPrefix(filepath.Ext(o.path), ".")
	info, err := os.Stat(o.path)
	switch {
	case err == nil && info.IsDir():
	case ext == "" && err == nil:
		return nil, "", cli.Usagef("%s %q is no directory, and a file ends in .json or .yaml", o.flag, o.path)
	case ext == "":
	case ext == string(cdi.JSON) || ext == string(cdi.YAML):
		if o.format != "" && o.format != ext {
			return nil, "", cli.Usagef("%s %q ends in .%s but --output is %s: runtimes read a file by its ending",
				o.flag, o.path, ext, o.format)
		}
		format, t.named = cdi.Format(ext), true
		t.store.Dir, t.base = filepath.Dir(o.path), strings.TrimSuffix(filepath.Base(o.path), "."+ext)
	default:
		return nil, "", cli.Usagef("%s %q: runtimes read only files that end in .json or .yaml", o.flag, o.path)
	}
	return t, format, nil
}

// spare returns an error if the file in a format exists and is not a spec of our kind. Writing would replace a file of
// another program or of a person.
func (t *target) spare(format cdi.Format) error {
	_, err := t.store.Load(t.base, format)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return t.foreign(err)
}

// foreign turns the error for a foreign file into a usage error. It returns any other error unchanged.
func (t *target) foreign(err error) error {
	if _, is := errors.AsType[*cdi.ForeignError](err); is {
		return cli.Usagef("%s: %w; name another file, or remove this one yourself", t.flag, err)
	}
	return err
}
