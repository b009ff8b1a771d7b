package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// drift compares the existing files with the files that write would leave, and prints the differences. It writes
// nothing. It returns an error with its own exit code if they differ.
func drift(cmd *cobra.Command, d *outcome, t *target, format cdi.Format) error {
	wanted := map[cdi.Format][]byte{} // no entry means that the file should not exist
	if d.spec != nil {
		data, err := cdi.Encode(d.spec, format)
		if err != nil {
			return err
		}
		wanted[format] = data
	} else if gone, why := d.absent(); !gone {
		return why
	}
	var reasons []string
	for _, f := range []cdi.Format{format, cdi.Twin(format)} {
		reason, err := compare(cmd.OutOrStdout(), t, f, wanted[f])
		if err != nil {
			return err
		}
		if reason != "" {
			reasons = append(reasons, t.path(f)+" "+reason)
		}
	}
	if reasons != nil {
		return &cli.Coded{Code: exitDrift, Err: fmt.Errorf("%s does not fit the host: %s; run generate --to, or let cdi-gen watch "+
			"keep it right",
			t.path(format), strings.Join(reasons, ", "))}
	}
	cmd.PrintErrf("%s fits the host\n", t.path(format))
	if d.spec == nil {
		return nil
	}
	return partial(d.snap, d.left)
}

// compare returns how a file differs from the wanted content, "" for no difference, and prints the difference. A wanted
// content of nil means that the file should not exist. compare ignores a foreign twin, because write does not remove
// it.
func compare(w io.Writer, t *target, format cdi.Format, wanted []byte) (reason string, err error) {
	path := t.path(format)
	old, err := t.store.Load(t.base, format)
	absent := errors.Is(err, fs.ErrNotExist)
	if _, is := errors.AsType[*cdi.ForeignError](err); is && wanted == nil {
		return "", nil
	} else if err != nil && !absent {
		return "", fmt.Errorf("check spec: %w", err)
	}
	if err := writeDiff(w, path, "host", old, wanted); err != nil {
		return "", err
	}
	switch {
	case absent && wanted == nil:
		return "", nil
	case absent:
		return "is missing", nil
	case wanted == nil:
		return "should not exist", nil
	case string(old) != string(wanted):
		return "differs", nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("check spec: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "is a link instead of a file of its own", nil
	}
	if mode := info.Mode().Perm(); mode != cdi.SpecMode {
		return fmt.Sprintf("has mode %04o instead of %04o", mode, cdi.SpecMode), nil
	}
	return "", nil
}
