package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// outputFlags say where a spec goes, and in which format.
type outputFlags struct {
	output string
	format string
}

func (o *outputFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "`DIR|FILE` to write: a file ends in .json or .yaml (default standard output)")
	f.StringVar(&o.format, "format", "", "`FORMAT`: json or yaml (default by the ending of --output, else yaml)")
}

// target is a file to write.
type target struct {
	store cdi.Store
	base  string
}

// path is where the spec stands in its format.
func (t *target) path(format cdi.Format) string { return t.store.Path(t.base, format) }

// target returns the file of a kind's spec; nil means standard output.
func (o *outputFlags) target(kind string) (*target, cdi.Format, error) {
	format := cdi.YAML
	if o.format != "" {
		var err error
		if format, err = cdi.ParseFormat(o.format); err != nil {
			return nil, "", usagef("--format: %w", err)
		}
	}
	if o.output == "" {
		return nil, format, nil
	}
	dir, base, ext := o.output, cdi.SpecName(kind, ""), strings.TrimPrefix(filepath.Ext(o.output), ".")
	info, err := os.Stat(o.output)
	isDir := err == nil && info.IsDir()
	switch {
	case isDir || ext == "":
	case ext == string(cdi.JSON) || ext == string(cdi.YAML):
		if o.format != "" && o.format != ext {
			return nil, "", usagef("--output %q ends in .%s but --format is %s: runtimes read a file by its ending", o.output, ext, o.format)
		}
		format = cdi.Format(ext)
		dir, base = filepath.Dir(o.output), strings.TrimSuffix(filepath.Base(o.output), "."+ext)
	default:
		return nil, "", usagef("--output %q: runtimes read only files that end in .json or .yaml", o.output)
	}
	t := &target{cdi.Store{Dir: dir, Sync: true}, base}
	return t, format, t.checkOwner(kind)
}

// checkOwner refuses files that are specs of another kind: they belong to another
// program, and writing here would replace or remove them. A file that cannot be read
// as a spec is not spared, since runtimes do not read it either.
func (t *target) checkOwner(kind string) error {
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		data, err := yamlread.Spec.Read(t.path(format))
		if err != nil {
			continue // what is there is none of ours, or writing says what is wrong
		}
		if other := cdi.KindOf(data); other != "" && other != kind {
			return usagef("--output: %q is a spec of kind %s, not %s: name another file, or remove it yourself", t.path(format), other, kind)
		}
	}
	return nil
}
