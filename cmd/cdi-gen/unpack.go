package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/spf13/cobra"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/cli"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// maxReport bounds a report, and maxMachine its tree. That of a host with 1,016 HCAs has 12 MiB.
const (
	maxReport  = 64 << 20
	maxMachine = 128 << 20
)

func newUnpack() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "unpack FILE",
		Short: "Unpack the host of a report, as a root directory for --host-root",
		Long: `Write the part of sysfs that a report of cdi-gen report has below a new directory. Other
commands read it with --host-root, and dra-driver explain tries a policy on it. FILE is
a report; - is standard input.`,
		Example: `  cdi-gen unpack cdi-gen-report.tar.gz --to host
  cdi-gen list --host-root host
  dra-driver explain --config new.yaml --host-root host`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usagef("--to: want a new directory")
			}
			t, err := readMachine(cmd, args[0])
			if err != nil {
				return fmt.Errorf("unpack %q: %w", args[0], err)
			}
			err = t.Extract(dir)
			if errors.Is(err, fs.ErrExist) {
				return cli.Usagef("--to %q: it is there already: name a new directory", dir)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "to", "", "new `DIR` to write")
	return cmd
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("want one report, as %s: there are %d", defaultReport, len(args))
	}
	return nil
}

// readMachine reads the tree of a report, and refuses one with a link that leads out of it: somebody else may have made
// the report.
func readMachine(cmd *cobra.Command, file string) (*tree.Tree, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		report, err := hostfs.ReadLocal(file, maxReport)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(report)
	}
	data, err := machineOf(in)
	if err != nil {
		return nil, err
	}
	_, t, err := tree.Parse(data)
	if err != nil {
		return nil, invalidf("%w", err)
	}
	for _, e := range t.Entries() {
		if e.Kind != tree.Link {
			continue
		}
		if _, err := t.Resolve(e.Path); errors.Is(err, tree.ErrOutside) {
			return nil, invalidf("%w", err)
		}
	}
	return t, nil
}

// machineOf returns the file of a report that has the tree.
func machineOf(report io.Reader) ([]byte, error) {
	gz, err := gzip.NewReader(report)
	if err != nil {
		return nil, invalidf("it is no report of cdi-gen report: %w", err)
	}
	defer gz.Close()
	files := tar.NewReader(io.LimitReader(gz, 2*maxMachine))
	for {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, invalidf("it has no file %s: is it a report of cdi-gen report?", capture.MachineFile)
		case err != nil:
			return nil, invalidf("it is no report of cdi-gen report: %w", err)
		case path.Base(h.Name) != capture.MachineFile:
			continue
		}
		data, err := io.ReadAll(io.LimitReader(files, maxMachine+1))
		switch {
		case err != nil:
			return nil, invalidf("read %s of it: %w", h.Name, err)
		case len(data) > maxMachine:
			return nil, invalidf("%s in it is larger than %d MiB", h.Name, maxMachine>>20)
		}
		return data, nil
	}
}
